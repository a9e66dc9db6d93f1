// Two ways of one all-reduce.
//
//   small tensors, or elements that change     gather ─▶ one all-reduce of the buffer ─▶ scatter     per round
//   long tensors                               an all-reduce for each, in groups ─▶ one kernel that divides and scales
//
// A call of NCCL costs some microseconds and a group of many far more, so many short tensors are copied together; from
// about a mebibyte on a copy costs more than a call. A single tensor that needs no kernel is NCCL's alone. If a member
// does not bring all tensors, they go through the buffer, in which a kernel writes what leaves the others' result as it
// is.
#include "ops/cuda/packed_batch.h"

#include <algorithm>

#include "runtime/engine/device_times.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::DevicePhase;
using core::DevicePhaseScope;
using core::Slice;
using Step = Communicators::Step;

/// The mean length from which on tensors are not copied.
constexpr size_t kLongTensor = 1 << 20;

bool through_buffer(const Call& call, const PackPlan& plan) {
  return !call.device->tensors.empty() || plan.needs_buffer || are_small(call.slices, core::size_of(call.dtype));
}

}  // namespace

bool are_small(std::span<const Slice> slices, size_t element_bytes) {
  size_t tensors = 0;
  size_t bytes = 0;
  for (const Slice& slice : slices) {
    if (slice.count == 0) continue;
    ++tensors;
    bytes += static_cast<size_t>(slice.count) * element_bytes;
  }
  return tensors > 1 && bytes / tensors < kLongTensor;
}

bool goes_through_buffer(const Call& call, const PackPlan& plan) {
  // A long table of tensors to finish lies behind the buffer.
  return through_buffer(call, plan) || (plan.finishes() && call.slices.size() > kHeldPieces);
}

Status PackedBatch::launch() {
  if (through_buffer(call_, plan_)) return launch_rounds();
  RUEDA_RETURN_IF_ERROR(launch_on_tensors());
  return plan_.finishes() ? finish_tensors() : Status();
}

Status PackedBatch::exchange(std::span<const Step> steps) {
  const DevicePhaseScope exchanging(*call_.device, DevicePhase::kExchange, stream_);
  return communicators_.launch(key_, core::name_of(call_.kind), steps, Communicators::Grouping::kSeveral, host_);
}

Status PackedBatch::launch_rounds() {
  PackRounds rounds(tensors_of(call_), plan_, FusionBuffer::kBytes, FusionBuffer::kMostPieces);
  std::vector<PackPiece> pieces;
  std::byte* const memory = buffer_.memory();
  while (rounds.next(pieces)) {
    {
      const DevicePhaseScope packing(*call_.device, DevicePhase::kPack, stream_);
      RUEDA_RETURN_IF_ERROR(packer_.gather(pieces, rounds.tiles()));
    }
    const auto numbers = static_cast<size_t>(rounds.bytes() / plan_.number_bytes());
    const Step sum = [&](const Nccl& nccl, NcclComm communicator) {
      return nccl.all_reduce(memory, memory, numbers, plan_.type, plan_.op, communicator, stream_);
    };
    RUEDA_RETURN_IF_ERROR(exchange({&sum, 1}));
    const DevicePhaseScope unpacking(*call_.device, DevicePhase::kUnpack, stream_);
    RUEDA_RETURN_IF_ERROR(packer_.scatter());
  }
  return {};
}

Result<NcclOp> PackedBatch::scaled_op() {
  if (plan_.before == 1.0) return plan_.op;
  return communicators_.scaled_sum(key_, plan_.type, plan_.before);
}

Status PackedBatch::launch_on_tensors() {
  const Result<NcclOp> op = scaled_op();
  if (!op.ok()) return op.status();
  std::vector<Step> steps;
  for (const Slice& slice : call_.slices) {
    if (slice.count == 0) continue;
    steps.push_back([this, slice, op = op.value()](const Nccl& nccl, NcclComm communicator) {
      return nccl.all_reduce(slice.in, slice.out, static_cast<size_t>(slice.count * plan_.parts), plan_.type, op,
                             communicator, stream_);
    });
  }
  return exchange(steps);
}

Status PackedBatch::finish_tensors() {
  const DevicePhaseScope finishing(*call_.device, DevicePhase::kUnpack, stream_);
  PackRounds rounds(call_.slices, plan_, INT64_MAX, FusionBuffer::kMostPieces);
  std::vector<PackPiece> pieces;
  while (rounds.next(pieces)) RUEDA_RETURN_IF_ERROR(packer_.finish(pieces, rounds.tiles()));
  return {};
}

}  // namespace rueda::cuda
