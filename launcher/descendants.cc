// Finds all processes below one. Process groups and sessions do not tell: a rank's child may leave both. The parent
// does, because Linux makes orphans children of the nearest subreaper, which guard and agent are. One pass over /proc
// reads every process's parent, then the tree is walked down from the ancestor.

#include "launcher/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {
namespace {

struct Living {
  pid_t parent = 0;
  ProcessMark mark;
};

// /proc/<pid>/stat is `pid (name) state parent ...`, with the start time as field 22. The name may hold blanks and
// brackets, so it ends at the last `)`. Zombies do not count: they wait only for their parent.
std::optional<Living> look_at(pid_t pid) {
  constexpr int kStartTime = 22;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(line.substr(name_end + 1));
  char state = 0;
  Living found{0, {pid, 0}};
  fields >> state >> found.parent;
  if (state == 'Z' || state == 'X') return std::nullopt;
  std::string skipped;
  for (int field = 5; field < kStartTime; ++field) fields >> skipped;
  fields >> found.mark.started;
  return fields ? std::optional(found) : std::nullopt;
}

std::multimap<pid_t, ProcessMark> children_by_parent() {
  std::multimap<pid_t, ProcessMark> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (!proc) return children;
  while (const dirent* entry = readdir(proc.get())) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (const auto living = look_at(pid)) children.emplace(living->parent, living->mark);
  }
  return children;
}

}  // namespace

std::vector<ProcessMark> descendants_of(pid_t ancestor) {
  const auto children = children_by_parent();
  std::vector<ProcessMark> found{{ancestor, 0}};
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = children.equal_range(found[next].pid);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

// The pidfd comes first: what it stands for cannot change any more, so a start time that is read afterwards and is the
// same shows that it is the process that was listed.
bool signal_process(const ProcessMark& process, int signal) {
  const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  const bool no_pidfds = !fd.valid() && errno != ESRCH;
  const auto living = look_at(process.pid);
  if (!living || living->mark.started != process.started) return false;
  if (no_pidfds) return kill(process.pid, signal) == 0;
  return fd.valid() && syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0) == 0;
}

void signal_descendants(int signal) {
  for (const ProcessMark& process : descendants_of(getpid())) {
    signal_process(process, signal);
    if (signal == SIGTERM) signal_process(process, SIGCONT);
  }
}

}  // namespace rueda::core::launcher
