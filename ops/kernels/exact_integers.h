#pragma once
#include "compression/cast.h"
#include "ops/kernels/reduce.h"

namespace rueda::core {

/// Integer sums that must not wrap before they are divided or scaled, and the scaling of other integer results.
///
/// Averages, and sums with a postscale, of an integer `task.dtype`: the sum is exact, in 64 bits for types of up to 32
/// bits (for up to 2^20 inputs) and in 128 bits for the 64-bit types.
void reduce_exactly(const CastSet& casts, const ReduceTask& task, const FoldRun& run, int input_count);

}  // namespace rueda::core
