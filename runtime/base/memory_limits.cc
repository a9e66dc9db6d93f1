// Finds the control groups that limit this process's memory, from the process to the top:
//
//   /proc/self/cgroup      "4:memory:/a/b" in version 1, "0::/a/b" in version 2
//   /proc/self/mountinfo   which folder shows the hierarchy, and from which group down
//   FOLDER/a/b, FOLDER/a, FOLDER   limit, usage, and how much of the usage are files that the kernel can drop
//
// A machine may mount both versions; the one that has the memory controller counts, and in version 1 it has a line of
// its own. Every group above can have a limit too, and the smallest holds.
#include "runtime/base/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>

namespace rueda::core {
namespace {

/// Version 1 writes the largest multiple of a page for "no limit".
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

struct Version {
  bool first = false;
  const char* limit;
  const char* usage;
  const char* prefix;  ///< of the counters of memory.stat that cover the groups below, too
};
constexpr Version kFirst{true, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"};
constexpr Version kSecond{false, "/memory.max", "/memory.current", ""};

/// Returns true if a list "a,b,c" has this item.
bool has_item(const std::string& list, const std::string& item) {
  return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

/// The group of a process, in the hierarchy of one version.
struct Membership {
  const Version* version;
  std::string path;
};

/// A line of /proc/PID/cgroup: number, controllers and path, with colons between.
std::optional<Membership> find_membership(const std::string& file) {
  std::ifstream lines(file);
  std::optional<Membership> found;
  for (std::string number, controllers, path; std::getline(lines, number, ':');) {
    if (!std::getline(lines, controllers, ':') || !std::getline(lines, path)) break;
    if (path == "/") path.clear();
    if (has_item(controllers, "memory")) return Membership{&kFirst, path};
    if (number == "0") found = Membership{&kSecond, path};
  }
  return found;
}

/// The folder of a mounted hierarchy, and the group that it shows as its top.
struct Mount {
  std::string folder, top;
};

/// A line of mountinfo: "35 31 0:32 /top /folder options ... - type source super-options" (proc(5)).
std::optional<Mount> find_mount(const std::string& file, const Version& version) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped, type, source, options;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.top >> mount.folder;
    while (words >> skipped && skipped != "-") continue;
    words >> type >> source >> options;
    if (mount.top == "/") mount.top.clear();
    if (version.first ? type == "cgroup" && has_item(options, "memory") : type == "cgroup2") return mount;
  }
  return std::nullopt;
}

std::optional<uint64_t> read_number(const std::string& file) {
  std::ifstream stream(file);
  uint64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;  // "max" is no number
}

uint64_t droppable_bytes(const std::string& folder, const Version& version) {
  std::ifstream lines(folder + "/memory.stat");
  uint64_t sum = 0, value = 0;
  const std::string prefix = version.prefix;
  for (std::string name; lines >> name >> value;) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") sum += value;
  }
  return sum;
}

/// Where this process sees the group `path`: below the mount's top if it lies there, else at the folder itself.
std::string seen_path(const std::string& path, const Mount& mount) {
  return lies_in(path, mount.top) ? path.substr(mount.top.size()) : "";
}

}  // namespace

bool lies_in(const std::string& group, const std::string& outer) {
  return group.starts_with(outer) && (group.size() == outer.size() || group[outer.size()] == '/');
}

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  std::vector<MemoryLimit> limits;
  const auto member = find_membership(root + "/proc/self/cgroup");
  const auto mount = member ? find_mount(root + "/proc/self/mountinfo", *member->version) : std::nullopt;
  if (!mount) return limits;
  const Version& version = *member->version;
  for (std::string group = seen_path(member->path, *mount);; group.erase(group.rfind('/'))) {
    const std::string folder = root + mount->folder + group;
    const auto limit = read_number(folder + version.limit);
    const auto usage = read_number(folder + version.usage);
    if (limit && usage && *limit < kNoLimit) {
      const uint64_t held = *usage - std::min(*usage, droppable_bytes(folder, version));
      limits.push_back({group, *limit, *limit - std::min(*limit, held)});
    }
    if (group.rfind('/') == std::string::npos) return limits;
  }
}

std::optional<std::string> memory_group(int64_t pid, const std::string& root) {
  const auto member = find_membership(root + "/proc/" + std::to_string(pid) + "/cgroup");
  const auto mount = member ? find_mount(root + "/proc/self/mountinfo", *member->version) : std::nullopt;
  if (!mount) return std::nullopt;
  return seen_path(member->path, *mount);
}

}  // namespace rueda::core
