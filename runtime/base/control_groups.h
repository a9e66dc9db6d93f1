#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rueda::core {

/// A control group of the kernel that this process is in, in version 1 or 2 of their interface (cgroups(7)).
struct ControlGroup {
  bool version1 = false;
  std::string path;    ///< in the hierarchy as this process sees it, "" for the top
  std::string folder;  ///< has the files of the group
};

/// Returns the groups of this process that `controller` ("memory", "pids") may limit: its own first, then those above.
/// Returns none if there are none, or if /proc or the hierarchy is not mounted. `root` goes before every path. Any
/// thread.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

/// Returns the path of another process's group in the same hierarchy, or nothing if this process cannot see it.
std::optional<std::string> control_group_of(int64_t pid, const std::string& controller, const std::string& root = "");

/// Returns true if the group `path` is `outer` or below it.
bool lies_in(const std::string& path, const std::string& outer);

/// Returns the number that a group's file holds; nothing if there is no file or it says "max".
std::optional<uint64_t> read_number(const std::string& file);

}  // namespace rueda::core
