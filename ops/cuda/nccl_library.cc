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

NcclLibrary find_nccl(const std::string& named) {
  void* const library = open_nccl(named);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return {0, fmt::format("no NCCL: {}; pip install nvidia-nccl-cu13 (or -cu12) brings one, and RUEDA_NCCL_LIBRARY "
                           "names it",
                           why == nullptr ? kName : why)};
  }
  const auto get_version = reinterpret_cast<int (*)(int*)>(::dlsym(library, "ncclGetVersion"));
  NcclLibrary found;
  if (get_version == nullptr || get_version(&found.version) != 0) {
    return {0, fmt::format("{} is no NCCL: it has no ncclGetVersion", named.empty() ? kName : named)};
  }
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname != nullptr;
  found.text =
      fmt::format("NCCL {}.{}.{} ({}), which nothing uses yet: tensors go through the host", found.version / kMajor,
                  found.version % kMajor / kMinor, found.version % kMinor, known ? info.dli_fname : kName);
  return found;
}

}  // namespace rueda::cuda
