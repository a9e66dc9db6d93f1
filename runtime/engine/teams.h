#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "runtime/engine/agreement.h"
#include "runtime/engine/executor.h"
#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// A process set as this rank runs it.
struct TeamState {
  Team team;
  bool lowest = false;  ///< this rank returns the set's credits
  bool with_rank_zero = false;
  std::atomic<uint64_t> started{0};  ///< batches begun: written by whoever begins one, in order
  uint64_t reported = 0;             ///< what agreement was told of `started`; the baton's holder
};

/// The sets of an epoch. The map is changed and read by the baton's holder; entries stay where they are.
class Teams {
 public:
  Teams(int rank, const std::vector<SetMembers>& sets);
  /// Null if there is no such set, or this rank is no member of it.
  TeamState* find(SetId set);
  /// The sets whose credits this rank returns.
  const std::vector<std::pair<SetId, TeamState*>>& led() const { return led_; }

 private:
  std::map<SetId, std::unique_ptr<TeamState>> teams_;
  std::vector<std::pair<SetId, TeamState*>> led_;
};

/// The global set of a plan: ranks by host, then rank, and the bracket of its sums: one group a host, and of a host
/// with more than 16 ranks one a 16.
SetMembers global_set(const EpochPlan& plan);

}  // namespace rueda::core
