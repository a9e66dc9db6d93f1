// Reduction on one host after which every member has its own part: the first half of a two-shot, with slices cut by
// owner.
//
//   rank r, chunk j    input slot | piece for 0 | piece for 1 | piece for 2 |
//                                   read by 0     read by 1     read by 2       the own piece is read from the tensor
//
//   step j:   post chunk j, posted = j        fold piece r of chunk j-1 from all slots ─▶ own rows, reduced = j
//
// There are no results for others, so nothing is posted a second time: `reduced` says that the inputs have been read,
// which is what frees their slots. Fold j-1 comes after post j, so that peers fold while this rank packs. Every byte is
// written once and read once.
#include "ops/cpu/shm_reducescatter.h"

#include <vector>

#include "ops/cpu/lane_view.h"
#include "ops/cpu/run_steps.h"
#include "ops/cpu/shm_slots.h"
#include "ops/owner_parts.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// One run or step of the algorithm.
class ReduceScatter {
 public:
  ReduceScatter(const Call& call, Mesh& mesh)
      : packing_(call),
        parts_(call),
        view_(call, mesh),
        pieces_(Pieces::of(call, parts_, packing_.element_bytes())),
        hint_(store_hint(call.choice.stores, mesh)),
        folded_(cursor(view_.index())),
        inputs_(static_cast<size_t>(view_.size())) {
    for (int owner = 0; owner < view_.size(); ++owner) packed_.push_back(cursor(owner));
  }

  int64_t number() const { return pieces_.number; }
  /// Each does one chunk if it can do so without waiting. Chunks come in order; one that was pending comes again.
  StepResult post(int64_t chunk);
  StepResult fold(int64_t chunk);

 private:
  SliceCursor cursor(int owner) const { return packing_.cursor(parts_.of(owner)); }
  int64_t piece(int owner, int64_t chunk) const { return pieces_.length_of(parts_.count(owner), chunk); }
  size_t piece_offset(int owner) const {
    return static_cast<size_t>(pieces_.offset_of(owner)) * packing_.element_bytes();
  }

  Packing packing_;
  OwnerParts parts_;
  LaneView view_;
  Pieces pieces_;
  StoreHint hint_;
  std::vector<SliceCursor> packed_;
  SliceCursor folded_;
  std::vector<const std::byte*> inputs_;
};

StepResult ReduceScatter::post(int64_t chunk) {
  const int slot = view_.slot(chunk);
  if (!view_.free(Area::kInput, slot)) return StepResult::kPending;
  std::byte* const input = view_.input(view_.index(), chunk);
  for (int owner = 0; owner < view_.size(); ++owner) {
    const int64_t length = piece(owner, chunk);
    SliceCursor& from = packed_[static_cast<size_t>(owner)];
    if (owner != view_.index()) {
      packing_.pack(from, length, input + piece_offset(owner), hint_);
    } else if (!packing_.as_is()) {  // the fold needs the own piece encoded, too
      packing_.pack(from, length, input + piece_offset(owner), StoreHint::kPlain);
    }
  }
  view_.claim(Area::kInput, slot, view_.value(chunk));
  view_.publish(Word::kPosted, view_.value(chunk));
  return StepResult::kDone;
}

StepResult ReduceScatter::fold(int64_t chunk) {
  const int64_t length = piece(view_.index(), chunk);
  if (length > 0) {
    if (!view_.all_seen(Word::kPosted, view_.value(chunk))) return StepResult::kPending;
    for (int i = 0; i < view_.size(); ++i) {
      inputs_[static_cast<size_t>(i)] = view_.input(i, chunk) + piece_offset(view_.index());
    }
    if (packing_.as_is()) {
      packing_.fold_with_own(folded_, length, inputs_, static_cast<size_t>(view_.index()));
    } else {
      packing_.fold(folded_, length, inputs_);
    }
  }
  view_.publish(Word::kReduced, view_.value(chunk));
  return StepResult::kDone;
}

enum ScatterPhase { kScatterPost, kScatterFold };

}  // namespace

bool shm_reducescatter_fits(const BatchShape& shape) { return shm_fits(shape); }

AlgorithmChoice shm_reducescatter_plan(const BatchShape& shape) {
  return plan_pieces(shape, static_cast<uint32_t>(shape.slot_bytes));
}

Result<StepResult> shm_reducescatter_step(const Call& call, Mesh& mesh, StepState& state) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  if (state.phase == kScatterPost) {
    if (ReduceScatter(call, mesh).post(0) == StepResult::kPending) return StepResult::kPending;
    state.phase = kScatterFold;
  }
  // Looks before it lays out the parts again: a turn asks many times.
  LaneView view(call, mesh);
  if (!view.all_seen(Word::kPosted, view.value(0))) return StepResult::kPending;
  return ReduceScatter(call, mesh).fold(0);
}

Status shm_reducescatter(const Call& call, Mesh& mesh, Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  ReduceScatter run(call, mesh);
  for (int64_t step = 0; step <= run.number(); ++step) {
    const auto post = [&]() -> Result<StepResult> { return run.post(step); };
    const auto fold = [&]() -> Result<StepResult> { return run.fold(step - 1); };
    if (step < run.number()) RUEDA_RETURN_IF_ERROR(run_steps(mesh, deadline, post));
    if (step > 0) RUEDA_RETURN_IF_ERROR(run_steps(mesh, deadline, fold));
  }
  return {};
}

}  // namespace rueda::core
