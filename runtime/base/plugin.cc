// Opens plug-ins: finds the library, asks it for its table, and refuses it unless ABI, size and build are this build's
// own. A library is never closed: its threads, its exit handlers and pointers into it may outlive a session.
#include "runtime/base/plugin.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/abort.h"
#include "runtime/base/build_id.h"
#include "runtime/base/deadline.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"
#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

constexpr size_t kHostAlignment = 64;

void* allocate_aligned(size_t bytes) {
  // aligned_alloc wants a multiple of the alignment. 0 bytes still get an address.
  return std::aligned_alloc(kHostAlignment, bytes / kHostAlignment * kHostAlignment + kHostAlignment);
}
void release(void* memory) { std::free(memory); }
int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now().time_since_epoch()).count();
}
void write_log(int32_t level, const char* line) { log(static_cast<LogLevel>(level), "{}", line); }
int32_t aborted(const Abort* abort) { return abort->raised() ? 1 : 0; }
const Algorithm* no_row(int32_t, const char*) { return nullptr; }
const char* setting(const char* name) {
  thread_local std::string value;
  const auto found = process_environment()(std::string("RUEDA_") + name);
  if (!found) return nullptr;
  value = *found;
  return value.c_str();
}

std::atomic<int64_t>& accounted() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}
void account(int64_t bytes) { accounted().fetch_add(bytes, std::memory_order_relaxed); }

Status refuse_plugin(const std::string& path, const std::string& why) {
  return {Code::kUnsupported, "plug-in " + path + " " + why};
}

/// Whether this process lacks the address space for a library of that file, data and all.
bool lacks_room_for(const std::string& path) {
  std::error_code ignored;
  const size_t bytes = 2 * std::filesystem::file_size(path, ignored);
  if (ignored || bytes == 0) return false;
  void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return errno == ENOMEM;
  ::munmap(room, bytes);
  return false;
}

/// The order matters: with another ABI only the first two fields mean anything, with another build only the first
/// three.
Status check_table(const std::string& path, const rueda_plugin_table* table) {
  if (table == nullptr) return refuse_plugin(path, "refuses to work with this build");
  if (table->abi != kPluginAbi) {
    return refuse_plugin(path, fmt::format("has plug-in ABI {}, this build has {}", table->abi, kPluginAbi));
  }
  if (table->struct_size != sizeof(rueda_plugin_table)) {
    return refuse_plugin(path, fmt::format("has a table of {} bytes, this build's has {}", table->struct_size,
                                           sizeof(rueda_plugin_table)));
  }
  if (table->build_id != std::string_view(build_id())) {
    return refuse_plugin(
        path, fmt::format("is of build {}, this is build {}; build both from one source", table->build_id, build_id()));
  }
  return {};
}

}  // namespace

std::string mpi_plugin_path(const std::string& folder, const std::string& named) {
  return named.empty() ? (std::filesystem::path(folder) / "librueda_mpi.so").string() : named;
}

std::string cuda_plugin_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "librueda_cuda.so").string();
}

Plugin look_at_plugin(const std::string& path, const rueda_host& host) {
  const auto table = open_plugin(path, host);
  return {path, table.ok() ? table.value() : nullptr, table.status()};
}

uint64_t plugin_bytes() { return static_cast<uint64_t>(accounted().load(std::memory_order_relaxed)); }

rueda_host bare_host() {
  return {sizeof(rueda_host), kPluginAbi, build_id(), allocate_aligned, release, now_nanoseconds,
          write_log,          aborted,    no_row,     nullptr,          setting, account};
}

Result<const rueda_plugin_table*> open_plugin(const std::string& path, const rueda_host& host) {
  // Most jobs have no plug-in, so a missing file gets a short sentence of its own.
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return refuse_plugin(path, "does not exist");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* found = ::dlerror();
    const std::string why = found == nullptr ? "no reason given" : found;
    // The linker's own sentence does not tell a lack of memory from a file system without programs.
    if (lacks_room_for(path)) {
      return Status(Code::kSystem, fmt::format("plug-in {} cannot be loaded: {}: {}", path, why, reason_of(ENOMEM)));
    }
    return refuse_plugin(path, "cannot be loaded: " + why);
  }
  const auto function = reinterpret_cast<rueda_plugin_function>(::dlsym(library, "rueda_plugin"));
  if (function == nullptr) return refuse_plugin(path, "is not a plug-in: it has no function rueda_plugin");
  const rueda_plugin_table* table = function(&host);
  RUEDA_RETURN_IF_ERROR(check_table(path, table));
  return table;
}

std::vector<Plugin> open_standard_plugins(const std::string& folder, const std::string& mpi_plugin,
                                          const rueda_host& host) {
  return {look_at_plugin(mpi_plugin_path(folder, mpi_plugin), host), look_at_plugin(cuda_plugin_path(folder), host)};
}

std::vector<Plugin> open_listed_plugins(const std::string& listed, const rueda_host& host) {
  std::vector<Plugin> plugins;
  for (size_t begin = 0; begin < listed.size();) {
    const size_t colon = std::min(listed.find(':', begin), listed.size());
    if (colon > begin) plugins.push_back(look_at_plugin(listed.substr(begin, colon - begin), host));
    begin = colon + 1;
  }
  return plugins;
}

std::string own_folder() {
  // Plug-ins lie beside the library. Where that is, only the dynamic linker knows: an installation may be anywhere.
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return {};
  return std::filesystem::absolute(info.dli_fname).parent_path().string();
}

}  // namespace rueda::core
