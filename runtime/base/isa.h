#pragma once
#include <span>

namespace rueda::core {

/// The instruction sets that kernels are built for, each needing all before it.
enum class Isa { kGeneric = 0, kAvx2 = 1, kAvx512 = 2 };
inline constexpr int kIsaCount = 3;

/// What this build holds and this processor (with this kernel) can run, the plain one first. Any thread.
std::span<const Isa> available_isas();
/// The last of `available_isas()`, looked up once.
Isa best_isa();
/// "generic", "avx2", "avx512".
const char* name_of(Isa isa);

}  // namespace rueda::core
