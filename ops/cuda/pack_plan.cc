// What travels and how, for all that NCCL does not compute as the host does by itself.
//
// clang-format off
//   average of floats           sum ─▶ divide; of 16 bits each step is in fp32
//   average of f16              divide ─▶ sum, since a sum of values near the end of the range would be infinite
//   codec                       f32 or f64 ─▶ f16 or bf16 ─▶ sum ─▶ back
//   average or scaled sum of    widen to the type in which the sum is exact ─▶ sum ─▶ divide, scale, cut off
//     integers
//   sum of 16-bit integers      widen, since NCCL has no such type
//   truth values                0 and 1 as u8; or is a maximum, and a minimum
// clang-format on
#include "ops/cuda/pack_plan.h"

#include <algorithm>

#include "ops/cuda/nccl_sums.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::CodecId;
using core::Dtype;
using core::ReduceOp;

bool is_extreme(ReduceOp op) { return op == ReduceOp::kMin || op == ReduceOp::kMax; }
bool adds(ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAverage; }
bool has_16_bits(Dtype dtype) { return dtype == Dtype::kU16 || dtype == Dtype::kI16; }

NcclOp nccl_op_of(Dtype dtype, ReduceOp op) {
  if (dtype == Dtype::kBool) return adds(op) || op == ReduceOp::kMax ? NcclOp::kMax : NcclOp::kMin;
  if (op == ReduceOp::kMin) return NcclOp::kMin;
  if (op == ReduceOp::kMax) return NcclOp::kMax;
  return op == ReduceOp::kProduct ? NcclOp::kProduct : NcclOp::kSum;
}

/// A scaled or divided sum has to be exact first.
PackWire wire_of_integers(const Call& call) {
  const bool is_exact = call.op == ReduceOp::kAverage || (call.op == ReduceOp::kSum && call.postscale != 1.0);
  return is_exact || has_16_bits(call.dtype) ? PackWire::kWide : PackWire::kSame;
}

void set_type(PackPlan& plan, NcclType type, size_t bytes) {
  plan.type = type;
  plan.wire_bytes = static_cast<int64_t>(bytes);
}

void set_wire_type(PackPlan& plan) {
  switch (plan.wire) {
    case PackWire::kF16: return set_type(plan, NcclType::kF16, 2);
    case PackWire::kBf16: return set_type(plan, NcclType::kBf16, 2);
    case PackWire::kWide: return set_type(plan, NcclType::kI64, core::size_of(plan.part) == 8 ? 16 : 8);
    case PackWire::kSame: break;
  }
  if (plan.part == Dtype::kBool) return set_type(plan, NcclType::kU8, 1);
  set_type(plan, nccl_type_of(plan.part)->type, core::size_of(plan.part));
}

/// The bits that leave the others' result as it is. Of sums of floats -0: so a sum of -0 stays one.
uint64_t neutral_bits(const PackPlan& plan, ReduceOp op) {
  const bool is_float = core::is_float(plan.part);
  if (adds(op) && !is_float) return 0;
  const auto sign = uint64_t{1} << (8 * plan.wire_bytes - 1);
  if (adds(op)) return sign;
  if (plan.part == Dtype::kBool) return plan.op == NcclOp::kMin ? 1 : 0;
  if (op == ReduceOp::kProduct) {
    switch (plan.type) {
      case NcclType::kF16: return 0x3c00;
      case NcclType::kBf16: return 0x3f80;
      case NcclType::kF32: return 0x3f800000;
      case NcclType::kF64: return 0x3ff0000000000000;
      default: return 1;
    }
  }
  const bool is_unsigned = plan.type == NcclType::kU8 || plan.type == NcclType::kU32 || plan.type == NcclType::kU64;
  const uint64_t all = sign | (sign - 1);
  if (op == ReduceOp::kMin) return is_unsigned ? all : sign - 1;
  return is_unsigned ? 0 : sign;
}

/// A product with a scale of 16-bit integers wraps between the two, which a wide one does not.
bool wraps_before_scale(const Call& call) {
  return has_16_bits(call.dtype) && call.op == ReduceOp::kProduct && call.postscale != 1.0;
}

}  // namespace

PackWire wire_of_codec(Dtype dtype, CodecId codec) {
  const bool changes = dtype == Dtype::kF32 || dtype == Dtype::kF64;
  if (!changes || codec == CodecId::kNone) return PackWire::kSame;
  return codec == CodecId::kFp16 ? PackWire::kF16 : PackWire::kBf16;
}

int64_t divisor_of(const Call& call) {
  if (call.op != ReduceOp::kAverage) return 1;
  return call.divisor != 0 ? call.divisor : call.team->size();
}

int64_t PackPlan::number_bytes() const { return wire == PackWire::kWide ? 8 : wire_bytes; }

bool can_pack(Dtype dtype, ReduceOp op) {
  if (dtype == Dtype::kOpaque || core::is_bitwise(op) || op == ReduceOp::kAdasum) return false;
  if (core::is_complex(dtype)) return adds(op);
  return !(core::is_float(dtype) && is_extreme(op));
}

std::optional<PackPlan> pack_plan_of(const Call& call) {
  if (!can_pack(call.dtype, call.op) || wraps_before_scale(call)) return {};
  PackPlan plan{};
  plan.part = core::part_of(call.dtype);
  plan.parts = plan.part == call.dtype ? 1 : 2;
  const bool is_float = core::is_float(plan.part);
  const bool is_bool = plan.part == Dtype::kBool;
  if (is_float) plan.wire = wire_of_codec(call.dtype, call.codec);
  if (!is_float && !is_bool) plan.wire = wire_of_integers(call);
  set_wire_type(plan);
  plan.op = nccl_op_of(call.dtype, call.op);
  plan.before = is_bool ? 1.0 : call.prescale;
  plan.after = is_bool ? 1.0 : call.postscale;
  plan.divisor = divisor_of(call);
  if (plan.type == NcclType::kF16 && plan.divisor != 1) {
    plan.before /= static_cast<double>(plan.divisor);
    plan.divisor = 1;
  }
  plan.neutral = neutral_bits(plan, call.op);
  const bool scales_inputs = plan.before != 1.0 && plan.op != NcclOp::kSum;
  const bool is_scaled_integer = !is_float && (plan.before != 1.0 || plan.finishes());
  // NCCL would scale in the tensor's own type, whose 16 bits round the factor, too.
  const bool is_short = plan.type == NcclType::kF16 || plan.type == NcclType::kBf16;
  const bool scales = scales_inputs || (plan.before != 1.0 && is_short);
  plan.needs_buffer = plan.wire != PackWire::kSame || is_bool || scales || is_scaled_integer;
  return plan;
}

bool PackRounds::next(std::vector<PackPiece>& pieces) {
  pieces.clear();
  bytes_ = 0;
  tiles_ = 0;
  const auto element = static_cast<int64_t>(core::size_of(plan_.part));
  for (; tensor_ < slices_.size(); ++tensor_, done_ = 0) {
    const core::Slice& slice = slices_[tensor_];
    const int64_t left = slice.count * plan_.parts - done_;
    if (left == 0) continue;
    const int64_t at = (bytes_ + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
    const int64_t count = std::min(left, (most_bytes_ - at) / plan_.wire_bytes);
    if (count <= 0 || pieces.size() == most_pieces_) break;
    const int64_t offset = done_ * element;
    pieces.push_back({.in = slice.in == nullptr ? nullptr : slice.in + offset,
                      .out = slice.out == nullptr ? nullptr : slice.out + offset,
                      .count = count,
                      .at = at,
                      .first_tile = tiles_,
                      .unused = 0});
    bytes_ = at + count * plan_.wire_bytes;
    tiles_ += tiles_of(count);
    done_ += count;
    if (count < left) break;
  }
  return !pieces.empty();
}

}  // namespace rueda::cuda
