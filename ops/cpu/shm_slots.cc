// Checks that a plan's chunks fit the slots, and measures how far the cores are apart.
//
// The plan comes from rank 0 and the slots from this rank's segment: a check where the two meet, before a chunk is
// written over the end of a slot.
#include "ops/cpu/shm_slots.h"

#include <string>

namespace rueda::core {
namespace {

/// Before they are encoded, as the tuner counts them.
uint64_t bytes_of(const Call& call) { return static_cast<uint64_t>(call.count) * size_of(call.dtype); }

}  // namespace

Status check_slots(const Call& call, const Mesh& mesh) {
  const SegmentLayout& layout = mesh.layout();
  const int slots = call.choice.lane_slots;
  if (slots != 0 && (slots < 2 || slots > layout.slots)) {
    return Status(Code::kInvalidArgument, "rank " + std::to_string(mesh.rank()) + ": a batch in " +
                                              std::to_string(slots) + " slots, of " + std::to_string(layout.slots) +
                                              "; allowed are 2 to " + std::to_string(layout.slots));
  }
  if (layout.slots >= 2 && call.choice.chunk_bytes <= layout.slot_bytes) return {};
  return Status(Code::kInvalidArgument, "rank " + std::to_string(mesh.rank()) + ": a chunk of " +
                                            std::to_string(call.choice.chunk_bytes) + " bytes does not fit " +
                                            std::to_string(layout.slots) + " slots of " +
                                            std::to_string(layout.slot_bytes) + " bytes; needed are 2 slots");
}

bool measures_distance(const Call& call) {
  const uint64_t bytes = bytes_of(call);
  return bytes >= kMeasuredBytes && Distances::due(call.stamp, bytes);
}

void learn_distance(const Call& call, Mesh& mesh) {
  const uint64_t bytes = bytes_of(call);
  if (bytes >= kMeasuredBytes) mesh.refresh_distance(call.team->ranks, call.stamp, bytes);
}

}  // namespace rueda::core
