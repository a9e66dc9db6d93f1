// What a plug-in may call. It links nothing of this build: it finds the algorithms that it wants to offer under its own
// name by kind and name, and the kernels behind one function of two inputs, which MPI's reduction operators need.
#include "ops/plugin_host.h"

#include <string_view>

#include "ops/algorithm.h"
#include "ops/kernels/reduce.h"
#include "ops/native.h"
#include "runtime/base/plugin.h"

namespace rueda::core {
namespace {

const Algorithm* find_host_algorithm(int32_t kind, const char* name) {
  for (const Algorithm& algorithm : algorithms()) {
    if (static_cast<int32_t>(algorithm.kind) == kind && algorithm.name == std::string_view(name)) return &algorithm;
  }
  for (const Algorithm& algorithm : native_algorithms()) {
    if (static_cast<int32_t>(algorithm.kind) == kind && algorithm.name == std::string_view(name)) return &algorithm;
  }
  return nullptr;
}

/// No codec, no scale, no divisor: two values of one dtype, as MPI combines them.
void combine(int32_t dtype, int32_t op, const void* first, const void* second, void* out, int64_t count) {
  ReduceTask task;
  task.dtype = static_cast<Dtype>(dtype);
  task.op = static_cast<ReduceOp>(op);
  const std::byte* const inputs[] = {static_cast<const std::byte*>(first), static_cast<const std::byte*>(second)};
  reduce(task, inputs, static_cast<std::byte*>(out), StoreHint::kPlain, nullptr, count);
}

rueda_host host_with_algorithms() {
  rueda_host host = bare_host();
  host.find_algorithm = find_host_algorithm;
  host.combine = combine;
  return host;
}

}  // namespace

const rueda_host& plugin_host() {
  static const rueda_host host = host_with_algorithms();
  return host;
}

}  // namespace rueda::core
