// The two meetings of a batch on tensors in shared memory. No rank reads a tensor before its owner has lent it, which
// the first meeting says, and no owner gets it back before the last rank has left it, which the second says. What is
// posted lies in the slot of the batch; a rank that is done has also read it, so the second word frees the slot.
#include "ops/cpu/shared_batch.h"

#include <string>

#include "ops/cpu/shm_slots.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// Values of `StepState::phase`.
enum SharedPhase { kToPost, kToWork, kToMeet };

uint64_t value_of(const SharedBatch& batch) { return batch.call().stamp + 1; }

Status check_room(const SharedWork& work, SharedBatch& batch) {
  RUEDA_RETURN_IF_ERROR(check_slots(batch.call(), batch.mesh()));
  const size_t bytes = work.bytes(batch.call());
  if (bytes <= batch.mesh().layout().slot_bytes) return {};
  return Status(Code::kInvalidArgument, "a slot has no room for the " + std::to_string(bytes) +
                                            " bytes that say where " + std::to_string(batch.call().slices.size()) +
                                            " tensors are");
}

/// The slot is free.
Status post_own(const SharedWork& work, SharedBatch& batch) {
  LaneView& view = batch.view();
  RUEDA_RETURN_IF_ERROR(work.post(batch, view.input(view.index(), 0)));
  view.claim(Area::kInput, view.slot(0), value_of(batch));
  view.publish(Word::kPosted, value_of(batch));
  return {};
}

/// All have posted. While the arenas are entered, no memory of the batch can be taken from a rank of this process.
Status do_work(const SharedWork& work, SharedBatch& batch) {
  RUEDA_RETURN_IF_ERROR(batch.find_arenas());
  {
    const ArenaVisit visit(batch.arenas());
    if (visit.refused()) return Status(Code::kPeerLost, "a rank of this process has taken its tensors back");
    RUEDA_RETURN_IF_ERROR(work.run(batch));
  }
  batch.view().publish(Word::kDone, value_of(batch));
  return {};
}

}  // namespace

Result<TensorArena*> SharedBatch::own_arena() const {
  TensorArena* const own = mesh_.arena(mesh_.rank());
  if (own == nullptr) return Status(Code::kInvalidArgument, "this rank has no shared memory for tensors");
  return own;
}

Status SharedBatch::find_arenas() {
  for (int i = 0; i < view_.size(); ++i) {
    const int rank = view_.rank_of(i);
    TensorArena* const arena = mesh_.arena(rank);
    if (arena == nullptr) {
      return Status(Code::kPeerLost, "rank " + std::to_string(rank) + " has no shared memory for tensors", rank);
    }
    arenas_.push_back(arena);
  }
  return {};
}

Result<std::vector<SharedOffsets>> SharedBatch::offsets_of(int member) const {
  const uint64_t bytes = arenas_[static_cast<size_t>(member)]->bytes();
  return read_offsets(posted_by(member), call_.slices, element_bytes_, bytes, view_.rank_of(member));
}

Result<StepResult> step_shared(const SharedWork& work, const Call& call, Mesh& mesh, StepState& state) {
  SharedBatch batch(call, mesh);
  LaneView& view = batch.view();
  if (state.phase == kToPost) {
    RUEDA_RETURN_IF_ERROR(check_room(work, batch));
    if (!view.free(Area::kInput, view.slot(0))) return StepResult::kPending;
    RUEDA_RETURN_IF_ERROR(post_own(work, batch));
    state.phase = kToWork;
  }
  if (state.phase == kToWork) {
    if (!view.all_seen(Word::kPosted, value_of(batch))) return StepResult::kPending;
    RUEDA_RETURN_IF_ERROR(do_work(work, batch));
    state.phase = kToMeet;
  }
  return view.all_seen(Word::kDone, value_of(batch)) ? StepResult::kDone : StepResult::kPending;
}

/// Like the step, with waits of its own, so that a timeline tells waiting from work.
Status run_shared(const SharedWork& work, const Call& call, Mesh& mesh, Deadline deadline) {
  SharedBatch batch(call, mesh);
  LaneView& view = batch.view();
  RUEDA_RETURN_IF_ERROR(check_room(work, batch));
  RUEDA_RETURN_IF_ERROR(view.wait_free(Area::kInput, view.slot(0), deadline));
  RUEDA_RETURN_IF_ERROR(post_own(work, batch));
  RUEDA_RETURN_IF_ERROR(view.wait_all(Word::kPosted, value_of(batch), deadline));
  learn_distance(call, mesh);
  RUEDA_RETURN_IF_ERROR(do_work(work, batch));
  return view.wait_all(Word::kDone, value_of(batch), deadline);
}

}  // namespace rueda::core
