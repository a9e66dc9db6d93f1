// Makes a cgroup below the test program's own, in whichever hierarchy has the freezer:
//
//   version 1   <mount>/<own group>/<name>/freezer.state   FROZEN, THAWED; FREEZING until all are
//   version 2   <mount>/<own group>/<name>/cgroup.freeze   1, 0; cgroup.events says "frozen 1" once all are
#include "tests/support/freezer.h"

#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

bool put(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  return file.good();
}

bool is_freezer(const std::string& type, const std::string& options, Freezer::Kind kind) {
  if (kind == Freezer::Kind::kVersion2) return type == "cgroup2";
  return type == "cgroup" && options.find("freezer") != std::string::npos;
}

/// The folder of the hierarchy; empty if none is mounted. A line of /proc/mounts is "device folder type options ...".
std::string mount_of(Freezer::Kind kind) {
  std::istringstream lines(text_of("/proc/mounts"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string device, folder, type, options;
    words >> device >> folder >> type >> options;
    if (is_freezer(type, options, kind)) return folder;
  }
  return {};
}

/// This program's group there. A line of /proc/self/cgroup is "number:controllers:/group"; version 2 names none.
std::string own_group(Freezer::Kind kind) {
  std::istringstream lines(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool found = kind == Freezer::Kind::kVersion2 ? controllers.empty() : controllers == "freezer";
    if (found) return line.substr(second + 1);
  }
  return {};
}

}  // namespace

std::optional<Freezer> Freezer::make(Kind kind) {
  const std::string mount = mount_of(kind);
  const std::string group = own_group(kind);
  if (mount.empty() || group.empty()) return std::nullopt;
  const std::string home = group == "/" ? mount : mount + group;
  const std::string folder = home + "/rueda-test-" + std::to_string(getpid());
  if (mkdir(folder.c_str(), 0755) != 0) return std::nullopt;
  Freezer freezer(kind, folder, home);
  const char* const word = kind == Kind::kVersion1 ? "/freezer.state" : "/cgroup.freeze";
  return access((folder + word).c_str(), W_OK) == 0 ? std::optional(std::move(freezer)) : std::nullopt;
}

Freezer::Freezer(Kind kind, std::string folder, std::string home)
    : kind_(kind), folder_(std::move(folder)), home_(std::move(home)) {}

Freezer::Freezer(Freezer&& other) noexcept
    : kind_(other.kind_),
      folder_(std::exchange(other.folder_, {})),
      home_(std::move(other.home_)),
      pids_(std::move(other.pids_)) {}

Freezer::~Freezer() {
  if (folder_.empty()) return;
  thaw();
  for (const pid_t pid : pids_) put(home_ + "/cgroup.procs", std::to_string(pid));  // fails if it has ended
  // A process that is ending cannot be moved, and keeps the cgroup busy until the kernel is through with it.
  for (const core::Deadline deadline = patience(); rmdir(folder_.c_str()) != 0 && errno == EBUSY; sched_yield()) {
    if (deadline.passed()) return;
  }
}

void Freezer::add(pid_t pid) {
  if (!put(folder_ + "/cgroup.procs", std::to_string(pid))) throw std::runtime_error("freezer: no room for a process");
  pids_.push_back(pid);
}

bool Freezer::frozen() const {
  return kind_ == Kind::kVersion1 ? text_of(folder_ + "/freezer.state") == "FROZEN\n"
                                  : text_of(folder_ + "/cgroup.events").find("frozen 1") != std::string::npos;
}

void Freezer::freeze() {
  put(folder_ + (kind_ == Kind::kVersion1 ? "/freezer.state" : "/cgroup.freeze"),
      kind_ == Kind::kVersion1 ? "FROZEN" : "1");
  for (const core::Deadline deadline = patience(); !frozen(); sched_yield()) {
    if (deadline.passed()) throw std::runtime_error("freezer: the processes do not freeze");
  }
}

void Freezer::thaw() {
  put(folder_ + (kind_ == Kind::kVersion1 ? "/freezer.state" : "/cgroup.freeze"),
      kind_ == Kind::kVersion1 ? "THAWED" : "0");
}

}  // namespace rueda::test
