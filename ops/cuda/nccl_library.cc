// Finds NCCL without linking it. A framework's own copy comes first: two NCCLs in one process are a known source of
// trouble. The version is asked before anything else of the table is used, because it says what the functions mean.
#include "ops/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "ops/cuda/symbol_finder.h"

namespace rueda::cuda {
namespace {

using core::Code;
using core::Result;
using core::Status;

constexpr const char* kNcclName = "libnccl.so.2";
/// NCCL numbers versions since 2.9 by 10000, 100 and 1.
constexpr int kMajor = 10000;
constexpr int kMinor = 100;

/// Where pip has put NCCL if it has put the plug-in at site-packages/rueda/lib. Empty if the plug-in's path is unknown.
/// The path is not resolved, since folders of Python may be links.
std::string beside_plugin() {
  const std::filesystem::path plugin = path_of(reinterpret_cast<void*>(&open_nccl), "");
  if (!plugin.is_absolute()) return "";
  return (plugin.parent_path().parent_path().parent_path() / "nvidia" / "nccl" / "lib" / kNcclName).string();
}

void* find_nccl(const std::string& named) {
  constexpr int kMode = RTLD_NOW | RTLD_LOCAL;
  if (!named.empty()) return ::dlopen(named.c_str(), kMode);
  void* library = ::dlopen(kNcclName, kMode | RTLD_NOLOAD);
  const std::string beside = beside_plugin();
  if (library == nullptr && !beside.empty()) library = ::dlopen(beside.c_str(), kMode);
  return library != nullptr ? library : ::dlopen(kNcclName, kMode);
}

void find_communicators(SymbolFinder& finder, Nccl& nccl) {
  finder.find(nccl.get_unique_id, "ncclGetUniqueId");
  finder.find(nccl.error_text, "ncclGetErrorString");
  finder.find(nccl.last_error, "ncclGetLastError");
  finder.find(nccl.init, "ncclCommInitRankConfig");
  finder.find(nccl.state, "ncclCommGetAsyncError");
  finder.find(nccl.finalize, "ncclCommFinalize");
  finder.find(nccl.destroy, "ncclCommDestroy");
  finder.find(nccl.abort, "ncclCommAbort");
  finder.find(nccl.create_scaled_sum, "ncclRedOpCreatePreMulSum");
  finder.find(nccl.destroy_op, "ncclRedOpDestroy");
}

void find_operations(SymbolFinder& finder, Nccl& nccl) {
  finder.find(nccl.group_start, "ncclGroupStart");
  finder.find(nccl.group_end, "ncclGroupEnd");
  finder.find(nccl.all_reduce, "ncclAllReduce");
  finder.find(nccl.reduce, "ncclReduce");
  finder.find(nccl.broadcast, "ncclBroadcast");
  finder.find(nccl.all_gather, "ncclAllGather");
  finder.find(nccl.reduce_scatter, "ncclReduceScatter");
  finder.find(nccl.send, "ncclSend");
  finder.find(nccl.receive, "ncclRecv");
}

void find_memory_functions(SymbolFinder& finder, Nccl& nccl) {
  finder.find_optional(nccl.allocate, "ncclMemAlloc");
  finder.find_optional(nccl.free, "ncclMemFree");
  finder.find_optional(nccl.register_memory, "ncclCommRegister");
  finder.find_optional(nccl.deregister_memory, "ncclCommDeregister");
}

Status no_nccl(std::string why) { return {Code::kUnsupported, std::move(why)}; }

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / kMajor, version % kMajor / kMinor, version % kMinor);
}

Result<Nccl> open_nccl(const std::string& named) {
  void* const library = find_nccl(named);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return no_nccl(
        fmt::format("no NCCL: {}; pip install nvidia-nccl-cu13 (or -cu12) brings one, and RUEDA_NCCL_LIBRARY names it",
                    why == nullptr ? kNcclName : why));
  }
  Nccl nccl{};
  SymbolFinder finder(library);
  finder.find(nccl.get_version, "ncclGetVersion");
  if (finder.missing() != nullptr || nccl.get_version(&nccl.version) != NcclResult::kSuccess) {
    return no_nccl(fmt::format("{} is not NCCL: it has no ncclGetVersion", named.empty() ? kNcclName : named));
  }
  nccl.path = path_of(reinterpret_cast<void*>(nccl.get_version), kNcclName);
  find_communicators(finder, nccl);
  find_operations(finder, nccl);
  find_memory_functions(finder, nccl);
  if (nccl.version < kLeastNccl || finder.missing() != nullptr) {
    return no_nccl(fmt::format("NCCL {} ({}) is too old{}; the least is {}", nccl_version_text(nccl.version), nccl.path,
                               finder.missing() == nullptr ? "" : fmt::format(" and has no {}", finder.missing()),
                               nccl_version_text(kLeastNccl)));
  }
  return nccl;
}

std::string describe_nccl(const std::string& named) {
  const Result<Nccl> found = open_nccl(named);
  if (!found.ok())
    return fmt::format("support for NCCL is built in, but cannot be used: {}", found.status().sentence());
  return fmt::format("NCCL {} ({})", nccl_version_text(found.value().version), found.value().path);
}

}  // namespace rueda::cuda
