// Barrier on one host: every rank raises its word, then looks at all the others'.
//
//   rank 0   posted = v ─┐
//   rank 1   posted = v ─┼─▶ each returns once it has seen v in all words
//   rank 2   posted = v ─┘
//
// One store and one ring of bells per rank, N-1 loads. It uses no slot, so no reader has to be waited for afterwards.
#include "ops/cpu/shm_barrier.h"

#include "ops/cpu/lane_view.h"
#include "ops/cpu/run_steps.h"
#include "ops/cpu/shm_slots.h"

namespace rueda::core {

namespace {

enum BarrierPhase { kArrive, kAllIn };

}  // namespace

bool shm_barrier_fits(const BatchShape& shape) { return shm_fits(shape); }

/// One stamp for the word, two to spare.
AlgorithmChoice shm_barrier_plan(const BatchShape&) {
  AlgorithmChoice choice;
  choice.stamps = 3;
  return choice;
}

Result<StepResult> shm_barrier_step(const Call& call, Mesh& mesh, StepState& state) {
  LaneView view(call, mesh);
  // Called again until all have come: the word is raised in the first call only.
  if (state.phase == kArrive) {
    view.publish(LaneView::Word::kPosted, view.value(0));
    state.phase = kAllIn;
  }
  return view.all_seen(LaneView::Word::kPosted, view.value(0)) ? StepResult::kDone : StepResult::kPending;
}

Status shm_barrier(const Call& call, Mesh& mesh, Deadline deadline) {
  StepState state;
  return run_steps(mesh, deadline, [&] { return shm_barrier_step(call, mesh, state); });
}

}  // namespace rueda::core
