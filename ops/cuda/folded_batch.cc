// An all-reduce in the canonical order: NCCL moves slices, a kernel of Rueda's own adds them up.
//
//   buffer, first half     tensors, gathered, in a slice for each member ─ sends ─▶ the others' second halves
//   buffer, second half    own slice of each other member                ─ fold ─▶ own slice of the first half
//                          all-gather of the first halves, scattered to the tensors              per round
//
// Each slice crosses the network twice, as in NCCL's ring. The order of the sum is that of the team's bracket, whatever
// the machines, the tensors' lengths and the batch they came in; so the bits are those of the host's algorithms.
#include "ops/cuda/folded_batch.h"

#include <algorithm>
#include <vector>

#include "ops/cuda/packed_batch.h"
#include "runtime/agreement/neutral.h"
#include "runtime/base/reduction.h"
#include "runtime/engine/device_times.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::DevicePhase;
using core::DevicePhaseScope;
using core::Dtype;
using core::ReduceOp;
using Step = Communicators::Step;

int64_t rounded_up(int64_t bytes) { return (bytes + kFoldBytes - 1) / kFoldBytes * kFoldBytes; }

/// Sums and products of truth values are a maximum and a minimum.
ReduceOp fold_op_of(Dtype dtype, ReduceOp op) {
  if (dtype != Dtype::kBool) return op == ReduceOp::kAverage ? ReduceOp::kSum : op;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor: return ReduceOp::kMax;
    case ReduceOp::kBxor: return ReduceOp::kBxor;
    default: return ReduceOp::kMin;
  }
}

Dtype type_on_wire(Dtype tensor, PackWire wire) {
  if (wire == PackWire::kSame) return tensor;
  return wire == PackWire::kF16 ? Dtype::kF16 : Dtype::kBf16;
}

/// What stands for the tensors of a member that has joined, as it travels.
uint64_t neutral_of(Dtype part, ReduceOp op) {
  core::Metadata metadata;
  metadata.dtype = part;
  metadata.op = op;
  uint64_t bits = 0;
  core::fill_neutral(metadata, std::as_writable_bytes(std::span(&bits, 1)).first(core::size_of(part)));
  return bits;
}

void set_bracket(const core::Team& team, FoldParameters& fold) {
  fold.members = static_cast<uint32_t>(team.size());
  fold.own = static_cast<uint32_t>(team.index);
  uint32_t member = 0;
  for (const int size : team.groups) {
    fold.begins[member / 32] |= uint32_t{1} << member % 32;
    member += static_cast<uint32_t>(size);
  }
  fold.begins[0] |= 1;
}

}  // namespace

bool can_fold(Dtype dtype, ReduceOp op) {
  return dtype != Dtype::kOpaque && op != ReduceOp::kAdasum && core::is_defined(op, dtype);
}

std::optional<FoldPlan> fold_plan_of(const Call& call) {
  const core::Team& team = *call.team;
  const bool is_product_of_pairs = core::is_complex(call.dtype) && call.op == ReduceOp::kProduct;
  const bool is_whole = call.device->tensors.empty();  // the neutral pair has two parts that differ
  if (!can_fold(call.dtype, call.op) || team.size() > static_cast<int>(kMostFolded)) return {};
  if (is_product_of_pairs && !is_whole) return {};
  FoldPlan plan{};
  PackPlan& pack = plan.pack;
  pack.part = core::part_of(call.dtype);
  pack.parts = core::is_complex(call.dtype) ? 2 : 1;
  pack.wire = wire_of_codec(call.dtype, call.codec);
  const Dtype wire = type_on_wire(call.dtype, pack.wire);
  pack.wire_bytes = static_cast<int64_t>(core::size_of(core::part_of(wire)));
  pack.before = call.dtype == Dtype::kBool ? 1.0 : call.prescale;
  pack.divisor = 1;
  pack.after = 1.0;
  pack.neutral = neutral_of(core::part_of(wire), call.op);
  pack.needs_buffer = true;
  plan.fold.dtype = wire;
  plan.fold.op = fold_op_of(call.dtype, call.op);
  plan.fold.divisor = divisor_of(call);
  plan.fold.postscale = call.dtype == Dtype::kBool ? 1.0 : call.postscale;
  set_bracket(team, plan.fold);
  return plan;
}

int64_t FoldedBatch::Slices::length(int member) const {
  return std::clamp<int64_t>(bytes - member * stride, 0, stride);
}

Status FoldedBatch::launch() {
  const int64_t most = FusionBuffer::kBytes / 2 / members_ / kFoldBytes * kFoldBytes * members_;
  PackRounds rounds(tensors_of(call_), plan_.pack, most, FusionBuffer::kMostPieces);
  std::vector<PackPiece> pieces;
  while (rounds.next(pieces)) {
    const int64_t bytes = rounded_up(rounds.bytes());
    const Slices slices{rounded_up((bytes + members_ - 1) / members_), bytes};
    {
      const DevicePhaseScope packing(*call_.device, DevicePhase::kPack, stream_);
      RUEDA_RETURN_IF_ERROR(packer_.gather(pieces, rounds.tiles()));
    }
    {
      const DevicePhaseScope exchanging(*call_.device, DevicePhase::kExchange, stream_);
      RUEDA_RETURN_IF_ERROR(exchange(slices));
      RUEDA_RETURN_IF_ERROR(fold(slices));
      RUEDA_RETURN_IF_ERROR(spread(slices));
    }
    const DevicePhaseScope unpacking(*call_.device, DevicePhase::kUnpack, stream_);
    RUEDA_RETURN_IF_ERROR(packer_.scatter());
  }
  return {};
}

/// Each pair sends in both directions in one group.
Status FoldedBatch::exchange(const Slices& slices) {
  std::byte* const memory = buffer_.memory();
  std::byte* const others = memory + FusionBuffer::kBytes / 2;
  std::vector<Step> steps;
  for (int member = 0; member < members_; ++member) {
    if (member == index_) continue;
    const auto theirs = static_cast<size_t>(slices.length(member));
    const auto own = static_cast<size_t>(slices.length(index_));
    const int64_t offset = member * slices.stride;
    if (theirs > 0) {
      steps.push_back([=, this](const Nccl& nccl, NcclComm communicator) {
        return nccl.send(memory + offset, theirs, NcclType::kU8, member, communicator, stream_);
      });
    }
    if (own > 0) {
      steps.push_back([=, this](const Nccl& nccl, NcclComm communicator) {
        return nccl.receive(others + offset, own, NcclType::kU8, member, communicator, stream_);
      });
    }
  }
  return communicators_.launch(key_, core::name_of(call_.kind), steps, Communicators::Grouping::kOne, host_);
}

Status FoldedBatch::fold(const Slices& slices) {
  FoldParameters parameters = plan_.fold;
  parameters.bytes = slices.length(index_);
  parameters.stride = slices.stride;
  parameters.slice = buffer_.memory() + index_ * slices.stride;
  parameters.others = buffer_.memory() + FusionBuffer::kBytes / 2;
  return kernels_.launch(parameters, stream_);
}

/// All slices have the longest one's length there.
Status FoldedBatch::spread(const Slices& slices) {
  if (members_ == 1) return {};
  std::byte* const memory = buffer_.memory();
  const Step gather = [&](const Nccl& nccl, NcclComm communicator) {
    return nccl.all_gather(memory + index_ * slices.stride, memory, static_cast<size_t>(slices.stride), NcclType::kU8,
                           communicator, stream_);
  };
  return communicators_.launch(key_, core::name_of(call_.kind), {&gather, 1}, Communicators::Grouping::kSeveral, host_);
}

}  // namespace rueda::cuda
