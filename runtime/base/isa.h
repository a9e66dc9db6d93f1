#pragma once
#include <span>

namespace rueda::core {

/// The instruction sets that kernels are built for. Each needs all before it.
enum class Isa { kGeneric = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kIsaCount = 3;

/// Returns the sets that this build has kernels for and this processor and operating system can run, generic first. Any
/// thread.
std::span<const Isa> available_isas();
/// Returns the last of `available_isas()`.
Isa best_isa();
/// "generic", "avx2", "avx512".
const char* name_of(Isa isa);

}  // namespace rueda::core
