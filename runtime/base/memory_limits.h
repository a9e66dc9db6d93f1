#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rueda::core {

/// A limit on memory of a control group that this process is in.
struct MemoryLimit {
  std::string group;  ///< its path in the hierarchy as this process sees it, "" for the top
  uint64_t limit_bytes = 0;
  uint64_t left_bytes = 0;  ///< what its processes can still take; the kernel drops cached files first, so they count
};

/// Returns the limits of the process's own group and of those above, the own one first, from version 2 (memory.max) or
/// version 1 (memory.limit_in_bytes) of the kernel's control groups. Returns none if there are none, or if /proc or the
/// hierarchy is not mounted. `root` goes before every path. Any thread.
std::vector<MemoryLimit> memory_limits(const std::string& root = "");

/// Returns the group of another process in the same hierarchy, or nothing if this process cannot see it.
std::optional<std::string> memory_group(int64_t pid, const std::string& root = "");

}  // namespace rueda::core
