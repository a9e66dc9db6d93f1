#pragma once
#include <cstdint>

namespace rueda::core {

/// How many steps behind the pack of a chunk its other stages run, in a pipeline over the slots of a lane.
///
/// A slot is packed again only after the whole host has published the chunk that it held, and written as a result only
/// after the whole host has unpacked it. Ranks publish and unpack in steps that begin with a pack. So what a slot waits
/// for must be over in an earlier step of its peers, or ranks wait for each other's next step for ever:
///
///   publish < slots                     pack of chunk c + slots is at step c + slots, publish of c at step c + publish
///   unpack < finish + slots             finish of chunk c + slots is at step c + slots + finish
struct StageLags {
  int64_t fold, finish, publish, unpack;
};

/// With four slots each stage uses what another rank did one step earlier. With fewer, stages share a step.
constexpr StageLags stage_lags(int slots) {
  if (slots >= 4) return {1, 2, 3, 4};
  return slots == 3 ? StageLags{1, 2, 2, 3} : StageLags{0, 1, 1, 1};
}

constexpr bool lags_fit(int slots) {
  const StageLags lags = stage_lags(slots);
  return lags.publish < slots && lags.unpack < lags.finish + slots;
}
static_assert(lags_fit(2) && lags_fit(3) && lags_fit(4));

}  // namespace rueda::core
