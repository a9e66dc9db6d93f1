// All-reduce of a small batch on one host with one synchronisation.
//
//   rank 0   input ─▶ slot ─ posted ─┐                   ┌─▶ fold all inputs ─▶ own tensors
//   rank 1   input ─▶ slot ─ posted ─┼─ all have posted ─┼─▶ fold all inputs ─▶ own tensors
//   rank 2   input ─▶ slot ─ posted ─┘                   └─▶ fold all inputs ─▶ own tensors
//
// Every rank reads N inputs and computes all results: N times the work of a two-shot, without its second
// synchronisation. Up to 56 bytes travel in the cache line of the flag itself: one line moves between the cores instead
// of two. All ranks fold in the team's order, so all get the same bits.
//
// Up to 48 bytes may have been shown before the batch was agreed (Turn::show_early). If all ranks have, the first step
// of each finds all inputs, and nobody waits.
#include "ops/cpu/shm_one_shot.h"

#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/run_steps.h"
#include "ops/cpu/shm_slots.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

enum Phase { kPost, kCollect };

bool is_tiny(const Call& call, const Packing& packing) {
  return static_cast<uint64_t>(call.count) * packing.element_bytes() <= kTinyBytes;
}

/// Returns false while a peer still reads what the area held before.
bool post(const Call& call, const Packing& packing, Mesh& mesh, LaneView& view) {
  const bool tiny = is_tiny(call, packing);
  if (tiny && view.shown_early(view.index())) return true;
  if (tiny) view.claim_wrong_guess();
  const auto area = tiny ? LaneView::Area::kTiny : LaneView::Area::kInput;
  const int slot = tiny ? view.tiny_slot() : view.slot(0);
  if (!view.free(area, slot)) return false;
  SliceCursor cursor = packing.cursor();
  if (tiny) {
    packing.pack(cursor, call.count, view.tiny(view.index()).payload, StoreHint::kPlain);
  } else {
    packing.pack(cursor, call.count, view.input(view.index(), 0), store_hint(call.choice.stores, mesh));
  }
  view.claim(area, slot, view.value(0));
  if (tiny) {
    view.publish_tiny();
  } else {
    view.publish(LaneView::Word::kPosted, view.value(0));
  }
  return true;
}

/// Returns false while an input is missing. The own input is read from its slot like any other: encoded, as peers see
/// it.
bool collect(const Call& call, const Packing& packing, Mesh& mesh, LaneView& view) {
  const bool tiny = is_tiny(call, packing);
  if (!(tiny ? view.all_tiny_seen() : view.all_seen(LaneView::Word::kPosted, view.value(0)))) return false;
  learn_distance(call, mesh);
  std::vector<const std::byte*> inputs;
  inputs.reserve(static_cast<size_t>(view.size()));
  for (int i = 0; i < view.size(); ++i) inputs.push_back(tiny ? view.tiny_input(i) : view.input(i, 0));
  SliceCursor cursor = packing.cursor();
  packing.fold(cursor, call.count, inputs);
  view.publish(LaneView::Word::kDone, view.value(0));
  return true;
}

}  // namespace

bool shm_one_shot_fits(const BatchShape& shape) { return shm_fits(shape) && wire_bytes(shape) <= shape.slot_bytes; }

/// One chunk always, so that a turn may run it inline.
AlgorithmChoice shm_one_shot_plan(const BatchShape& shape) {
  return plan_chunks(0, static_cast<uint32_t>(shape.slot_bytes));
}

Result<StepResult> shm_one_shot_step(const Call& call, Mesh& mesh, StepState& state) {
  const Packing packing(call);
  LaneView view(call, mesh);
  if (state.phase == kPost) {
    RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
    if (!post(call, packing, mesh, view)) return StepResult::kPending;
    state.phase = kCollect;
  }
  return collect(call, packing, mesh, view) ? StepResult::kDone : StepResult::kPending;
}

/// The stamp last: a peer that reads it finds the rest. It rings nobody, since no peer waits for a batch that is not
/// agreed.
void shm_one_shot_show_early(const Call& call, Mesh& mesh) {
  const Packing packing(call);
  if (static_cast<uint64_t>(call.count) * packing.element_bytes() > kEarlyBytes) return;
  LaneView view(call, mesh);
  const bool free = view.free(LaneView::Area::kEarly, view.tiny_slot());
  mesh.waits_for(Mesh::kNobody);
  if (!free) return;
  view.claim(LaneView::Area::kEarly, view.tiny_slot(), view.value(0));
  EarlyLine& line = view.early(view.index());
  SliceCursor cursor = packing.cursor();
  packing.pack(cursor, call.count, line.payload, StoreHint::kPlain);
  line.key = call.key;
  line.stamp.store(view.value(0), std::memory_order_release);
}

Status shm_one_shot(const Call& call, Mesh& mesh, Deadline deadline) {
  StepState state;
  return run_steps(mesh, deadline, [&] { return shm_one_shot_step(call, mesh, state); });
}

}  // namespace rueda::core
