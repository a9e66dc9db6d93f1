// Finds the control groups that limit this process, from the process to the top:
//
//   /proc/self/cgroup      "4:memory:/a/b" in version 1, "0::/a/b" in version 2
//   /proc/self/mountinfo   which folder shows the hierarchy, and from which group down
//   FOLDER/a/b, FOLDER/a, FOLDER   the groups; each may have a limit of its own, and the smallest holds
//
// A machine may mount both versions. The one that has the controller counts, and in version 1 it has a line of its own.
#include "runtime/base/control_groups.h"

#include <fstream>
#include <sstream>

namespace rueda::core {
namespace {

/// Returns true if a list "a,b,c" has this item.
bool has_item(const std::string& list, const std::string& item) {
  return ("," + list + ",").find("," + item + ",") != std::string::npos;
}

/// The group of a process, in the hierarchy of one version.
struct GroupOfProcess {
  bool version1;
  std::string path;
};

/// A line of /proc/PID/cgroup: number, controllers and path, with colons between.
std::optional<GroupOfProcess> find_group(const std::string& file, const std::string& controller) {
  std::ifstream lines(file);
  std::optional<GroupOfProcess> found;
  for (std::string number, controllers, path; std::getline(lines, number, ':');) {
    if (!std::getline(lines, controllers, ':') || !std::getline(lines, path)) break;
    if (path == "/") path.clear();
    if (has_item(controllers, controller)) return GroupOfProcess{true, path};
    if (number == "0") found = GroupOfProcess{false, path};
  }
  return found;
}

/// The folder of a mounted hierarchy, and the group that it shows as its top.
struct Mount {
  std::string folder, top;
};

/// A line of mountinfo: "35 31 0:32 /top /folder options ... - type source super-options" (proc(5)).
std::optional<Mount> find_mount(const std::string& file, const GroupOfProcess& member, const std::string& controller) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skipped, type, source, options;
    Mount mount;
    words >> skipped >> skipped >> skipped >> mount.top >> mount.folder;
    while (words >> skipped && skipped != "-") continue;
    words >> type >> source >> options;
    if (mount.top == "/") mount.top.clear();
    if (member.version1 ? type == "cgroup" && has_item(options, controller) : type == "cgroup2") return mount;
  }
  return std::nullopt;
}

/// Where this process sees the group `path`: below the mount's top if it lies there, else at the folder itself.
std::string seen_path(const std::string& path, const Mount& mount) {
  return lies_in(path, mount.top) ? path.substr(mount.top.size()) : "";
}

}  // namespace

bool lies_in(const std::string& path, const std::string& outer) {
  return path.starts_with(outer) && (path.size() == outer.size() || path[outer.size()] == '/');
}

std::optional<uint64_t> read_number(const std::string& file) {
  std::ifstream stream(file);
  uint64_t number = 0;
  return stream >> number ? std::optional(number) : std::nullopt;
}

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  const auto member = find_group(root + "/proc/self/cgroup", controller);
  const auto mount = member ? find_mount(root + "/proc/self/mountinfo", *member, controller) : std::nullopt;
  if (!mount) return groups;
  for (std::string path = seen_path(member->path, *mount);; path.erase(path.rfind('/'))) {
    groups.push_back({member->version1, path, root + mount->folder + path});
    if (path.rfind('/') == std::string::npos) return groups;
  }
}

std::optional<std::string> control_group_of(int64_t pid, const std::string& controller, const std::string& root) {
  const auto member = find_group(root + "/proc/" + std::to_string(pid) + "/cgroup", controller);
  const auto mount = member ? find_mount(root + "/proc/self/mountinfo", *member, controller) : std::nullopt;
  if (!mount) return std::nullopt;
  return seen_path(member->path, *mount);
}

}  // namespace rueda::core
