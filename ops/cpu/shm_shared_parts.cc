// What ranks read of each other's tensors and write into their own memory: parts of a reduction, or the root's tensors.
//
//   reduce-scatter   rank r:  part r of t0, t1, t2 ─▶ sum ─▶ own output        broadcast   rank r:  root's tensor ─▶
//   own reduce           root:    all of t0, t1, t2 ─▶ sum ─▶ own output
//
// Nobody writes into another rank's memory, so a rank that goes on after a failure can only read too long.
#include "ops/cpu/shm_shared_parts.h"

#include <cstring>
#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/shared_batch.h"
#include "ops/cpu/shared_fold.h"
#include "ops/cpu/shm_slots.h"
#include "ops/owner_parts.h"

namespace rueda::core {

namespace {

size_t bytes_of_inputs(const Call& call) { return posted_bytes(call.slices.size()); }

Status post_inputs(SharedBatch& batch, std::byte* to) {
  const Result<TensorArena*> own = batch.own_arena();
  if (!own.ok()) return own.status();
  return post_offsets(batch.call().slices, batch.element_bytes(), *own.value(), Posts::kInputs, to);
}

Status reduce_own_part(SharedBatch& batch) {
  const Call& call = batch.call();
  const int self = batch.view().index();
  const OwnerParts parts(call);
  if (parts.count(self) == 0) return {};
  std::vector<std::vector<SharedOffsets>> offsets;
  for (int i = 0; i < batch.view().size(); ++i) {
    Result<std::vector<SharedOffsets>> read = batch.offsets_of(i);
    if (!read.ok()) return read.status();
    offsets.push_back(std::move(read).value());
  }
  const PhaseScope reducing(call.phases, WorkPhase::kReduce);
  SharedFold fold(call, 0, StoreHint::kPlain);
  for (size_t t = 0; t < call.slices.size(); ++t) {
    const Slice& part = parts.of(self)[t];
    if (part.count == 0) continue;
    MemberTensors tensor;
    const auto byte = static_cast<size_t>(part.in - call.slices[t].in);
    for (size_t i = 0; i < offsets.size(); ++i) {
      tensor.in.push_back(batch.arenas()[i]->base() + offsets[i][t].in + byte);
    }
    tensor.out.push_back(part.out);
    fold.run(tensor, part.count);
  }
  return {};
}

/// Only the root's tensors are read.
Status post_root(SharedBatch& batch, std::byte* to) {
  return batch.view().index() == batch.call().root ? post_inputs(batch, to) : Status();
}

Status copy_root(SharedBatch& batch) {
  const Call& call = batch.call();
  const PhaseScope unpacking(call.phases, WorkPhase::kUnpack);
  const Result<std::vector<SharedOffsets>> offsets = batch.offsets_of(call.root);
  if (!offsets.ok()) return offsets.status();
  const std::byte* const base = batch.arenas()[static_cast<size_t>(call.root)]->base();
  for (size_t t = 0; t < call.slices.size(); ++t) {
    const size_t bytes = static_cast<size_t>(call.slices[t].count) * batch.element_bytes();
    const std::byte* const from = base + offsets.value()[t].in;
    // A root that sends from its own output has nothing to copy.
    if (bytes != 0 && from != call.slices[t].out) std::memcpy(call.slices[t].out, from, bytes);
  }
  return {};
}

constexpr SharedWork kSharedParts = {bytes_of_inputs, post_inputs, reduce_own_part};
constexpr SharedWork kSharedBroadcast = {bytes_of_inputs, post_root, copy_root};

}  // namespace

Result<StepResult> shm_shared_parts_step(const Call& call, Mesh& mesh, StepState& state) {
  return step_shared(kSharedParts, call, mesh, state);
}

Status shm_shared_parts(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_shared(kSharedParts, call, mesh, deadline);
}

Result<StepResult> shm_shared_broadcast_step(const Call& call, Mesh& mesh, StepState& state) {
  return step_shared(kSharedBroadcast, call, mesh, state);
}

Status shm_shared_broadcast(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_shared(kSharedBroadcast, call, mesh, deadline);
}

}  // namespace rueda::core
