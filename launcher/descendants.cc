// Finds all processes below one. Process groups and sessions do not tell: a rank's child may leave both. The parent
// does, because Linux makes orphans children of the nearest subreaper, which guard and agent are. One pass over /proc
// reads every process's parent, then the tree is walked down from the ancestor.

#include "launcher/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::core::launcher {
namespace {

// /proc/<pid>/stat is `pid (name) state parent ...`. The name may hold blanks and brackets, so it ends at the last `)`.
// Zombies do not count: they wait only for their parent.
std::optional<pid_t> living_parent(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 4 >= line.size()) return std::nullopt;
  const char state = line[name_end + 2];
  if (state == 'Z' || state == 'X') return std::nullopt;
  pid_t parent = 0;
  std::from_chars(line.data() + name_end + 4, line.data() + line.size(), parent);
  return parent;
}

std::multimap<pid_t, pid_t> children_by_parent() {
  std::multimap<pid_t, pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (!proc) return children;
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto parsed = std::from_chars(entry->d_name, end, pid);
    if (parsed.ec != std::errc() || parsed.ptr != end) continue;
    if (const auto parent = living_parent(entry->d_name)) children.emplace(*parent, pid);
  }
  return children;
}

}  // namespace

std::vector<pid_t> descendants_of(pid_t ancestor) {
  const auto children = children_by_parent();
  std::vector<pid_t> found{ancestor};
  for (size_t next = 0; next < found.size(); ++next) {
    const auto [begin, end] = children.equal_range(found[next]);
    for (auto child = begin; child != end; ++child) found.push_back(child->second);
  }
  found.erase(found.begin());
  return found;
}

void signal_descendants(int signal) {
  for (const pid_t pid : descendants_of(getpid())) {
    kill(pid, signal);
    if (signal == SIGTERM) kill(pid, SIGCONT);
  }
}

}  // namespace rueda::core::launcher
