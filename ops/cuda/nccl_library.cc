// Finds NCCL without linking it. A framework's own copy comes first: two NCCLs in one process are a known source of
// trouble.
#include "ops/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace rueda::cuda {
namespace {

constexpr const char* kName = "libnccl.so.2";
/// NCCL numbers versions since 2.9 by 10000, 100 and 1.
constexpr int kMajor = 10000;
constexpr int kMinor = 100;

void* open_nccl(const std::string& named) {
  if (!named.empty()) return ::dlopen(named.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const loaded = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return loaded != nullptr ? loaded : ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

std::string describe_nccl(const std::string& named) {
  void* const library = open_nccl(named);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return fmt::format(
        "no NCCL: {}; pip install nvidia-nccl-cu13 (or -cu12) brings one, and RUEDA_NCCL_LIBRARY names it",
        why == nullptr ? kName : why);
  }
  const auto get_version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  int version = 0;
  if (get_version == nullptr || get_version(&version) != 0) {
    return fmt::format("{} is no NCCL: it has no ncclGetVersion", named.empty() ? kName : named);
  }
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr;
  return fmt::format("NCCL {}.{}.{} ({}), which nothing uses yet: tensors go through the host", version / kMajor,
                     version % kMajor / kMinor, version % kMinor, known ? info.dli_fname : kName);
}

}  // namespace rueda::cuda
