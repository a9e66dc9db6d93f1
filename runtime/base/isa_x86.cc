// Which vector instructions this processor and its operating system support. Each set needs all before it, so a count
// is the whole answer. It is found once.
#include <cpuid.h>

#include <cstddef>

#include "runtime/base/isa.h"

namespace rueda::core {
namespace {

constexpr Isa kAll[kIsaCount] = {Isa::kGeneric, Isa::kAvx2, Isa::kAvx512};

/// Clang's __builtin_cpu_supports does not know F16C, so CPUID is asked. F16C needs the same support of the operating
/// system as AVX2, which the builtin has checked.
bool has_f16c() {
  unsigned int a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

size_t count_available() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !has_f16c()) return 1;
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return wide ? 3 : 2;
}

}  // namespace

std::span<const Isa> available_isas() {
  static const size_t count = count_available();
  return {kAll, count};
}

}  // namespace rueda::core
