// All-reduce in place of tensors that all ranks of the host have mapped.
//
//   rank 0   offsets ─ posted ─┐               ┌─▶ slice 0 of t0, t1, t2 ─▶ sum ─▶ slice 0 of t0, t1, t2 ─ done ─┐
//   rank 1   offsets ─ posted ─┼─ all posted ──┼─▶ slice 1 of t0, t1, t2 ─▶ sum ─▶ slice 1 of t0, t1, t2 ─ done ─┼─ all
//   rank 2   offsets ─ posted ─┘               └─▶ slice 2 of t0, t1, t2 ─▶ sum ─▶ slice 2 of t0, t1, t2 ─ done ─┘ done
//
// No two ranks touch the same element, so the two meetings are all the order there is. All ranks fold in the team's
// order, so a slice has the same bits whoever owns it.
#include "ops/cpu/shm_shared.h"

#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/shared_batch.h"
#include "ops/cpu/shared_fold.h"
#include "ops/cpu/shm_slots.h"

namespace rueda::core {

namespace {

size_t bytes_of_offsets(const Call& call) { return posted_bytes(call.slices.size()); }

Status post_tensors(SharedBatch& batch, std::byte* to) {
  const Result<TensorArena*> own = batch.own_arena();
  if (!own.ok()) return own.status();
  return post_offsets(batch.call().slices, batch.element_bytes(), *own.value(), Posts::kInputsAndOutputs, to);
}

Status reduce_own_slice(SharedBatch& batch) {
  const Call& call = batch.call();
  std::vector<std::vector<SharedOffsets>> offsets;
  for (int i = 0; i < batch.view().size(); ++i) {
    Result<std::vector<SharedOffsets>> read = batch.offsets_of(i);
    if (!read.ok()) return read.status();
    offsets.push_back(std::move(read).value());
  }
  const int self = batch.view().index();
  const ElementRange own = ChunkCut(0, call.count, batch.element_bytes(), batch.view().size()).slice_of(self);
  const PhaseScope reducing(call.phases, WorkPhase::kReduce);  // of all pieces together
  SharedFold fold(call, static_cast<size_t>(self), store_hint(call.choice.stores, batch.mesh()));
  int64_t first = 0;
  for (size_t t = 0; t < call.slices.size() && first < own.end; first += call.slices[t++].count) {
    const ElementRange part{std::max(own.begin, first) - first,
                            std::min(own.end, first + call.slices[t].count) - first};
    if (part.begin >= part.end) continue;
    MemberTensors tensor;
    const size_t byte = static_cast<size_t>(part.begin) * batch.element_bytes();
    for (size_t i = 0; i < offsets.size(); ++i) {
      tensor.in.push_back(batch.arenas()[i]->base() + offsets[i][t].in + byte);
      tensor.out.push_back(batch.arenas()[i]->base() + offsets[i][t].out + byte);
    }
    fold.run(tensor, part.length());
  }
  return {};
}

constexpr SharedWork kSharedAllreduce = {bytes_of_offsets, post_tensors, reduce_own_slice};

}  // namespace

bool shm_shared_fits(const BatchShape& shape) {
  return shm_fits(shape) && shape.shared && posted_bytes(shape.tensors) <= shape.slot_bytes;
}

/// It has no chunks. As many stamps as slots would be filled tell a lane's batch from one that a turn may run.
AlgorithmChoice shm_shared_plan(const BatchShape& shape) {
  return plan_chunks(wire_bytes(shape), static_cast<uint32_t>(shape.slot_bytes));
}

Result<StepResult> shm_shared_step(const Call& call, Mesh& mesh, StepState& state) {
  return step_shared(kSharedAllreduce, call, mesh, state);
}

Status shm_shared(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_shared(kSharedAllreduce, call, mesh, deadline);
}

}  // namespace rueda::core
