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

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "launcher/build.h"
#include "runtime/base/build_id.h"
#include "runtime/base/isa.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {
namespace {

struct Finding {
  std::string what;
  bool works;
  std::string detail;  ///< where it was found, or why it does not work
  std::string remedy;  ///< for what does not work
};

std::string because() { return std::strerror(errno); }

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
          "deaths are seen by the end of a socket instead; Linux 5.3 has pidfd"};
}

Finding try_futex() {
  uint32_t word = 1;
  const long rc = syscall(SYS_futex, &word, FUTEX_WAIT, 0u, nullptr, nullptr, 0);  // 0 is not its value: EAGAIN
  const bool works = rc == -1 && errno == EAGAIN;
  return {"shared memory: futex", works, works ? "asked" : because(), "the sandbox must allow the futex call"};
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

std::vector<std::filesystem::path> plugin_folders() {
  std::vector<std::filesystem::path> folders;
  const char* variable = std::getenv("RUEDA_PLUGIN_PATH");
  const std::string listed = variable == nullptr ? "" : variable;
  for (size_t begin = 0; begin < listed.size();) {
    const size_t colon = std::min(listed.find(':', begin), listed.size());
    if (colon > begin) folders.emplace_back(listed.substr(begin, colon - begin));
    begin = colon + 1;
  }
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  folders.push_back((self.parent_path() / ".." / RUEDA_LIBRARY_FOLDER).lexically_normal());
  return folders;
}

Finding try_plugin(const std::string& what, const std::string& file, const std::string& remedy) {
  std::string searched;
  for (const auto& folder : plugin_folders()) {
    const auto path = folder / file;
    searched += (searched.empty() ? "" : ", ") + folder.string();
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return {what, false, dlerror(), remedy};
    const bool entry = dlsym(library, "rueda_plugin") != nullptr;
    dlclose(library);
    return {what, entry, entry ? path.string() : path.string() + " has no rueda_plugin", remedy};
  }
  return {what, false, fmt::format("no {} in {}", file, searched), remedy};
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
  for (const Finding& finding : {try_tcp(), try_memfd(), try_pidfd(), try_futex()}) text += line(finding);
  text += "\nPlug-ins (opened at run time; all else works without them)\n";
  text += line(try_plugin("mpi", "librueda_mpi.so",
                          "build with Open MPI's headers present, or name its folder in RUEDA_PLUGIN_PATH"));
  text += line(try_plugin("cuda, nccl", "librueda_cuda.so",
                          "build with CUDA's headers present, or name its folder in RUEDA_PLUGIN_PATH"));
  text += fmt::format("\nKernels   {}; in use: {}\n", kernel_sets(), name_of(best_isa()));
  text += fmt::format("OpenSSL   {}\n", OpenSSL_version(OPENSSL_VERSION));
  return text;
}

}  // namespace rueda::core::launcher
