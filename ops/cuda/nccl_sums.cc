// What NCCL adds up by itself, without the plug-in's kernels, and what it does not.
//
// An average is then a sum of inputs that were multiplied by 1/n, in the type of the tensor: NCCL has no place for a
// division behind the sum. The scales of a call are part of the same factor. So a float's sum on the host and on GPUs
// may differ in its last bits. In deterministic mode the plug-in's kernels add floats up (folded_batch.cc), or the host
// does.
#include "ops/cuda/nccl_sums.h"

namespace rueda::cuda {

using core::Dtype;
using core::ReduceOp;

std::optional<NcclSum> nccl_type_of(Dtype dtype) {
  const auto one = [](NcclType type) { return NcclSum{type, 1, NcclOp::kSum}; };
  switch (dtype) {
    case Dtype::kU8: return one(NcclType::kU8);
    case Dtype::kI8: return one(NcclType::kI8);
    case Dtype::kU32: return one(NcclType::kU32);
    case Dtype::kI32: return one(NcclType::kI32);
    case Dtype::kU64: return one(NcclType::kU64);
    case Dtype::kI64: return one(NcclType::kI64);
    case Dtype::kF16: return one(NcclType::kF16);
    case Dtype::kBf16: return one(NcclType::kBf16);
    case Dtype::kF32: return one(NcclType::kF32);
    case Dtype::kF64: return one(NcclType::kF64);
    case Dtype::kC64: return NcclSum{NcclType::kF32, 2, NcclOp::kSum};
    case Dtype::kC128: return NcclSum{NcclType::kF64, 2, NcclOp::kSum};
    default: return {};  // 16-bit integers and truth values
  }
}

bool nccl_reduces(Dtype dtype, ReduceOp op) {
  if (!nccl_type_of(dtype)) return false;
  const bool is_integer = !core::is_float(core::part_of(dtype));
  switch (op) {
    case ReduceOp::kSum: return true;
    case ReduceOp::kAverage: return !is_integer;
    case ReduceOp::kProduct: return !core::is_complex(dtype);
    case ReduceOp::kMin:
    case ReduceOp::kMax: return is_integer;
    default: return false;
  }
}

std::optional<NcclSum> nccl_sum_of(const core::Call& call) {
  if (call.codec != core::CodecId::kNone || !nccl_reduces(call.dtype, call.op)) return {};
  std::optional<NcclSum> sum = nccl_type_of(call.dtype);
  sum->scale = call.prescale * call.postscale;
  switch (call.op) {
    case ReduceOp::kAverage:
      sum->scale /= static_cast<double>(call.divisor != 0 ? call.divisor : call.team->size());
      break;
    case ReduceOp::kProduct: sum->op = NcclOp::kProduct; break;
    case ReduceOp::kMin: sum->op = NcclOp::kMin; break;
    case ReduceOp::kMax: sum->op = NcclOp::kMax; break;
    default: break;
  }
  const bool scales_sums_of_floats = sum->op == NcclOp::kSum && core::is_float(core::part_of(call.dtype));
  if (sum->scale != 1.0 && !scales_sums_of_floats) return {};
  return sum;
}

}  // namespace rueda::cuda
