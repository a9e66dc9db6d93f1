// How MPI adds what Rueda's kernels would add to the same bits: with its own operation if that gives them, else with an
// operation of ours that calls the host's kernels.
//
//   dtype, op ─▶ own_op known? ─yes─▶ MPI_SUM, ... on MPI's type (unsigned for sums of integers: they wrap)
//                       └─no──▶ combine<op> on a contiguous type of so many bytes
//
// MPI calls such a function with the datatype and nothing else, no context. So each dtype has a type of its own, even
// of the same size, and the function finds its dtype by comparing handles.
#include "ops/mpi/combine.h"

#include <cstddef>

namespace rueda::mpi {
namespace {

using core::Dtype;
using core::ReduceOp;

/// Bytes of an element by dtype. The plug-in links nothing of the host, `size_of` included.
constexpr int kSizes[core::kDtypeCount] = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 8, 16, 1};

/// What `combine` finds its way with. Set once by `Reductions`, before any collective starts.
const rueda_host* kernels_of = nullptr;
const MPI_Datatype* known_types = nullptr;

/// MPI's order of arguments: `second_and_out` is both the right operand and the result.
template <ReduceOp kOp>
void combine(void* first, void* second_and_out, int* count, MPI_Datatype* type) {
  for (int dtype = 0; dtype < core::kDtypeCount; ++dtype) {
    if (known_types[dtype] != *type) continue;
    kernels_of->combine(dtype, static_cast<int32_t>(kOp), first, second_and_out, second_and_out, *count);
  }
}

bool is_whole(Dtype dtype) { return dtype <= Dtype::kI64; }
bool has_two_parts(Dtype dtype) { return dtype == Dtype::kC64 || dtype == Dtype::kC128; }
bool is_one_float(Dtype dtype) { return dtype == Dtype::kF32 || dtype == Dtype::kF64; }

/// Sums and products of signed integers wrap as those of unsigned ones do, which C defines.
MPI_Datatype unsigned_of(Dtype dtype) {
  switch (kSizes[static_cast<int>(dtype)]) {
    case 1: return MPI_UINT8_T;
    case 2: return MPI_UINT16_T;
    case 4: return MPI_UINT32_T;
    default: return MPI_UINT64_T;
  }
}

MPI_Datatype with_sign(Dtype dtype) {
  switch (dtype) {
    case Dtype::kI8: return MPI_INT8_T;
    case Dtype::kI16: return MPI_INT16_T;
    case Dtype::kI32: return MPI_INT32_T;
    case Dtype::kI64: return MPI_INT64_T;
    default: return unsigned_of(dtype);
  }
}

/// MPI's own operation for a dtype; MPI_OP_NULL if it would not give the kernels' bits. Its minimum of floats loses
/// NaN, its logic is not that of bool, and on processors with AVX, Open MPI 4.1 adds integers of 8 and 16 bits without
/// wrapping: they stick at the largest.
MPI_Op own_op(Dtype dtype, ReduceOp op) {
  if (is_whole(dtype)) {
    const bool narrow = kSizes[static_cast<int>(dtype)] < 4;
    if (narrow && (op == ReduceOp::kSum || op == ReduceOp::kProduct)) return MPI_OP_NULL;
    switch (op) {
      case ReduceOp::kSum: return MPI_SUM;
      case ReduceOp::kProduct: return MPI_PROD;
      case ReduceOp::kMin: return MPI_MIN;
      case ReduceOp::kMax: return MPI_MAX;
      case ReduceOp::kBand: return MPI_BAND;
      case ReduceOp::kBor: return MPI_BOR;
      case ReduceOp::kBxor: return MPI_BXOR;
      default: return MPI_OP_NULL;
    }
  }
  if (op == ReduceOp::kSum && (is_one_float(dtype) || has_two_parts(dtype))) return MPI_SUM;
  return op == ReduceOp::kProduct && is_one_float(dtype) ? MPI_PROD : MPI_OP_NULL;
}

MPI_Datatype own_type(Dtype dtype, ReduceOp op) {
  if (dtype == Dtype::kF32 || dtype == Dtype::kC64) return MPI_FLOAT;
  if (dtype == Dtype::kF64 || dtype == Dtype::kC128) return MPI_DOUBLE;
  return op == ReduceOp::kMin || op == ReduceOp::kMax ? with_sign(dtype) : unsigned_of(dtype);
}

}  // namespace

Reductions::Reductions(const rueda_host* host) {
  kernels_of = host;
  known_types = types_;
  for (int dtype = 0; dtype < core::kDtypeCount; ++dtype) {
    MPI_Type_contiguous(kSizes[dtype], MPI_BYTE, &types_[dtype]);
    MPI_Type_commit(&types_[dtype]);
  }
  for (MPI_Op& op : ops_) op = MPI_OP_NULL;
  const auto make = [this](ReduceOp op, MPI_User_function* function, bool commutes) {
    MPI_Op_create(function, commutes ? 1 : 0, &ops_[static_cast<int>(op)]);
  };
  make(ReduceOp::kSum, combine<ReduceOp::kSum>, true);
  make(ReduceOp::kProduct, combine<ReduceOp::kProduct>, true);
  make(ReduceOp::kBand, combine<ReduceOp::kBand>, true);
  make(ReduceOp::kBor, combine<ReduceOp::kBor>, true);
  make(ReduceOp::kBxor, combine<ReduceOp::kBxor>, true);
  // Of -0 and +0 the first one wins: with the order left to MPI, ranks would differ in the sign of a zero.
  make(ReduceOp::kMin, combine<ReduceOp::kMin>, false);
  make(ReduceOp::kMax, combine<ReduceOp::kMax>, false);
}

void Reductions::free() {
  for (MPI_Datatype& type : types_) MPI_Type_free(&type);
  for (MPI_Op& op : ops_) {
    if (op != MPI_OP_NULL) MPI_Op_free(&op);
  }
}

Reductions::Choice Reductions::choose(Dtype dtype, ReduceOp op) const {
  const MPI_Op own = own_op(dtype, op);
  if (own != MPI_OP_NULL) return {own_type(dtype, op), own, has_two_parts(dtype) ? 2 : 1};
  return {types_[static_cast<int>(dtype)], ops_[static_cast<int>(op)], 1};
}

}  // namespace rueda::mpi
