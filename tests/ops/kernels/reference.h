#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/kernels/reduce.h"

namespace rueda::test {

/// The bytes of out[i] for every i, worked out element by element from the words of `ReduceTask`, without the kernels.
std::vector<std::byte> reduced(const core::ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count);

/// `count` elements of `dtype`, a pure function of its arguments. Every third float is of any bits (NaN, infinities,
/// denormals), the others are sums' everyday food; integers are of any bits; truth values are 0, 1 or any byte.
std::vector<std::byte> elements(core::Dtype dtype, int64_t count, uint64_t seed);

}  // namespace rueda::test
