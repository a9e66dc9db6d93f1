// Broadcast on one host, chunk by chunk through the root's input slots.
//
//   root     wait: slot free ─▶ pack chunk k into slot k mod slots ─▶ posted = k ─▶ own output, if it is another buffer
//   others   wait: posted ≥ k ─▶ unpack chunk k from the root's slot ─▶ done = k
//
// The root runs ahead of its readers by as many chunks as there are slots; with the last chunk posted it is finished,
// and the ledger keeps the slots until their readers are done. Each byte is written once and read N-1 times. The root
// posts before it copies to its own output: the others wait for the slot.
#include "ops/cpu/shm_broadcast.h"

#include <cstring>

#include "ops/chunks.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/run_steps.h"
#include "ops/cpu/shm_slots.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

using Word = LaneView::Word;
using Area = LaneView::Area;

/// One run or step of the algorithm.
class Broadcast {
 public:
  Broadcast(const Call& call, Mesh& mesh)
      : call_(call),
        packing_(call),
        view_(call, mesh),
        chunks_(Chunks::of(call, packing_.element_bytes())),
        hint_(store_hint(call.choice.stores, mesh)),
        cursor_(packing_.cursor()) {}

  int64_t number() const { return chunks_.number(); }
  /// Does one chunk if it can do so without waiting. Chunks come in order; a chunk that was pending comes again.
  StepResult step(int64_t chunk) { return view_.index() == call_.root ? post(chunk) : collect(chunk); }

 private:
  StepResult post(int64_t chunk);
  StepResult collect(int64_t chunk);

  const Call& call_;
  Packing packing_;
  LaneView view_;
  Chunks chunks_;
  StoreHint hint_;
  SliceCursor cursor_;
};

StepResult Broadcast::post(int64_t chunk) {
  const int slot = view_.slot(chunk);
  if (!view_.free(Area::kInput, slot)) return StepResult::kPending;
  const int64_t length = chunks_.length_of(chunk);
  SliceCursor copied = cursor_;  // the same elements once more, for the own output
  packing_.pack(cursor_, length, view_.input(view_.index(), chunk), hint_);
  view_.claim(Area::kInput, slot, view_.value(chunk));
  view_.publish(Word::kPosted, view_.value(chunk));
  copied.take(length, [&](const std::byte* in, std::byte* out, int64_t count) {
    if (in != out) std::memcpy(out, in, static_cast<size_t>(count) * packing_.element_bytes());
  });
  return StepResult::kDone;
}

/// Bits pass unchanged: without a codec, packing and unpacking are copies.
StepResult Broadcast::collect(int64_t chunk) {
  if (!view_.seen(call_.root, Word::kPosted, view_.value(chunk))) return StepResult::kPending;
  packing_.unpack(cursor_, chunks_.length_of(chunk), view_.input(call_.root, chunk));
  view_.publish(Word::kDone, view_.value(chunk));
  return StepResult::kDone;
}

}  // namespace

bool shm_broadcast_fits(const BatchShape& shape) { return shm_fits(shape); }

AlgorithmChoice shm_broadcast_plan(const BatchShape& shape) {
  return plan_chunks(shape.bytes, static_cast<uint32_t>(shape.slot_bytes));
}

Result<StepResult> shm_broadcast_step(const Call& call, Mesh& mesh, StepState&) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  return Broadcast(call, mesh).step(0);
}

Status shm_broadcast(const Call& call, Mesh& mesh, Deadline deadline) {
  RUEDA_RETURN_IF_ERROR(check_slots(call, mesh));
  Broadcast broadcast(call, mesh);
  for (int64_t chunk = 0; chunk < broadcast.number(); ++chunk) {
    RUEDA_RETURN_IF_ERROR(run_steps(mesh, deadline, [&] { return Result<StepResult>(broadcast.step(chunk)); }));
  }
  return {};
}

}  // namespace rueda::core
