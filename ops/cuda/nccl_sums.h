#pragma once
#include <cstddef>
#include <optional>

#include "ops/cuda/nccl_abi.h"
#include "runtime/base/dtype.h"
#include "runtime/engine/executor.h"

namespace rueda::cuda {

/// How NCCL computes a reduction.
struct NcclSum {
  NcclType type;
  size_t parts;        ///< numbers of `type` in one element: 2 of a complex one
  NcclOp op;           ///< `kSum` if `scale` is not 1
  double scale = 1.0;  ///< each input is multiplied by it first
};

/// Returns the type that moves or adds up elements of `dtype`, and how many make up one. Empty if NCCL has none.
std::optional<NcclSum> nccl_type_of(core::Dtype dtype);

/// Returns whether NCCL computes `op` of `dtype` as the host does, but for the order of a float's sum. Minimum and
/// maximum of floats go through the host, because NCCL drops NaNs; so do bitwise operators, averages of integers, and
/// products of complex numbers. Pure.
bool nccl_reduces(core::Dtype dtype, core::ReduceOp op);

/// Returns how NCCL computes the call's reduction; empty if it cannot. The same on all members. Pure.
std::optional<NcclSum> nccl_sum_of(const core::Call& call);

}  // namespace rueda::cuda
