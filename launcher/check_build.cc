// Tries each thing that a rank will need, and prints a line for each: what works, or why it does not and what to do.
// Trying is the only safe answer, because sandboxes refuse calls that the kernel has, and a plug-in's libraries may be
// absent.

#include "launcher/check_build.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "launcher/build.h"
#include "runtime/base/build_id.h"
#include "runtime/base/device_functions.h"
#include "runtime/base/isa.h"
#include "runtime/base/plugin.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/fabric.h"

namespace rueda::core::launcher {
namespace {

struct Finding {
  std::string what;
  bool works;
  std::string detail;  ///< the path or the call that worked, or why it did not
  std::string remedy;  ///< for what does not work
};

std::string because() { return std::strerror(errno); }

// Sealed and mapped as the ranks of a host do it with their shared segment.
Finding try_memfd() {
  constexpr size_t kBytes = 4096;
  const UniqueFd fd(memfd_create("rueda-check", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool sealed = fd.valid() && ftruncate(fd.get(), kBytes) == 0 &&
                      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
  void* memory = sealed ? mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0) : MAP_FAILED;
  const std::string why = memory == MAP_FAILED ? because() : "sealed and mapped";
  if (memory != MAP_FAILED) munmap(memory, kBytes);
  return {"shared memory: memfd", memory != MAP_FAILED, why, "ranks of one host fall back to /dev/shm, else to TCP"};
}

Finding try_pidfd() {
  const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  return {"shared memory: pidfd", fd.valid(), fd.valid() ? "opened" : because(),
          "ranks see a death by the end of a socket instead; pidfd needs Linux 5.3"};
}

Finding try_futex() {
  uint32_t word = 1;
  const long rc = syscall(SYS_futex, &word, FUTEX_WAIT, 0u, nullptr, nullptr,
                          0);  // `word` is not 0, so a kernel that allows the call says EAGAIN
  const bool works = rc == -1 && errno == EAGAIN;
  return {"shared memory: futex", works, works ? "called" : because(), "the sandbox must allow the futex call"};
}

Finding try_tcp() {
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool works = fd.valid() && bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                     listen(fd.get(), 1) == 0;
  return {"tcp", works, works ? "listened on 127.0.0.1" : because(),
          "hvdrun's store needs the loopback interface: ip link set lo up"};
}

/// The library folder of this installation, found from the path of this program.
std::string library_folder() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (self.parent_path() / ".." / RUEDA_LIBRARY_FOLDER).lexically_normal().string();
}

/// Loaded as the loader does it for programs and for Python.
Finding try_library() {
  const std::string path = fmt::format("{}/librueda.so.{}", library_folder(), RUEDA_MAJOR);
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string detail = library != nullptr ? "loaded" : dlerror();
  return {
      "librueda", library != nullptr, detail,
      "programs that use it cannot start; it takes 4 GiB of address space while it is loaded, so look at ulimit -v"};
}

/// The path of the MPI plug-in that the user names; empty if there is none.
std::string named_for_mpi() {
  const char* path = std::getenv("RUEDA_MPI_PLUGIN");
  return path == nullptr ? "" : path;
}

/// What a plug-in is for, told by its file name; a stranger's is shown by that name.
std::string purpose(const std::string& path) {
  std::string file = std::filesystem::path(path).filename().string();
  if (file == "librueda_mpi.so" || path == named_for_mpi()) return "mpi";
  if (file == "librueda_cuda.so") return "cuda";
  return file;
}

/// A plug-in for devices opens their library only when asked, and that may fail though the plug-in itself was opened.
Finding judge_devices(const Plugin& plugin) {
  std::string detail;
  for (size_t i = 0; i < plugin.table->device_count; ++i) {
    const DeviceFunctions& functions = plugin.table->devices[i];
    std::array<char, 4096> text{};
    if (functions.describe(functions.context, text.data(), text.size()) != 0) {
      functions.why(functions.context, text.data(), text.size());
      return {purpose(plugin.path), false, text.data(), fmt::format("{} needs it", plugin.path)};
    }
    detail += std::string(text.data()) + ", ";
  }
  return {purpose(plugin.path), true, detail + plugin.path, ""};
}

Finding judge_plugin(const Plugin& plugin) {
  const std::string what = purpose(plugin.path);
  if (!plugin.status.ok()) {
    return {what, false, plugin.status.sentence(),
            what == "mpi" ? "rueda-build-mpi makes one for the mpicc in PATH; RUEDA_MPI_PLUGIN may name its path"
            : what == "cuda"
                ? "tensors on GPUs need it: it is in the wheel, so pip install --force-reinstall brings it back; a "
                  "build from source makes it if there is cuda.h, which scripts/setup --cuda brings"
                : "put one of this build there, or name its path in RUEDA_PLUGINS"};
  }
  if (plugin.table->device_count > 0) return judge_devices(plugin);
  // A fabric opens its own library (MPI) only when asked, and that may fail though the plug-in itself was opened.
  if (plugin.table->fabric == nullptr) return {what, true, plugin.path, ""};
  const Result<std::string> library = plugin.table->fabric->library();
  const std::string detail = library.ok() ? library.value() + ", " + plugin.path : library.status().sentence();
  return {"mpi", library.ok(), detail, "rueda-build-mpi makes a plug-in for the mpicc in PATH"};
}

std::vector<Finding> try_plugins() {
  static const rueda_host host = bare_host();  // static, because plug-ins keep a pointer to it
  std::vector<Finding> findings;
  for (const Plugin& plugin : open_standard_plugins(library_folder(), named_for_mpi(), host)) {
    findings.push_back(judge_plugin(plugin));
  }
  const char* listed = std::getenv("RUEDA_PLUGINS");
  for (const Plugin& plugin : open_listed_plugins(listed == nullptr ? "" : listed, host)) {
    findings.push_back(judge_plugin(plugin));
  }
  return findings;
}

std::string kernel_sets() {
  std::string names;
  for (const Isa isa : available_isas()) names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  return names;
}

std::string line(const Finding& finding) {
  const std::string head = fmt::format("  [{}] {:<22} {}\n", finding.works ? "X" : " ", finding.what, finding.detail);
  return finding.works ? head : head + fmt::format("      {:<22} -> {}\n", "", finding.remedy);
}

}  // namespace

std::string check_build() {
  std::string text =
      fmt::format("Rueda {} (build {}, {})\n\nControllers and transports\n", version(), build_id(), compiler());
  for (const Finding& finding : {try_tcp(), try_memfd(), try_pidfd(), try_futex(), try_library()})
    text += line(finding);
  text += "\nPlug-ins (opened at run time; everything else works without them)\n";
  for (const Finding& finding : try_plugins()) text += line(finding);
  text += fmt::format("\nKernels   {}; in use: {}\n", kernel_sets(), name_of(best_isa()));
  text += fmt::format("OpenSSL   {}\n", OpenSSL_version(OPENSSL_VERSION));
  return text;
}

}  // namespace rueda::core::launcher
