// Reads the memory limits of the process's control groups. In each group three files count: the limit, the usage, and
// how much of the usage are files that the kernel can drop.
#include "runtime/base/memory_limits.h"

#include <algorithm>
#include <fstream>

#include "runtime/base/control_groups.h"

namespace rueda::core {
namespace {

constexpr const char* kController = "memory";
/// Version 1 writes the largest multiple of a page for "no limit".
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

struct Files {
  const char* limit;
  const char* usage;
  const char* prefix;  ///< of the counters of memory.stat that cover the groups below, too
};
constexpr Files kFirst{"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"};
constexpr Files kSecond{"/memory.max", "/memory.current", ""};

uint64_t droppable_bytes(const std::string& folder, const std::string& prefix) {
  std::ifstream lines(folder + "/memory.stat");
  uint64_t sum = 0, value = 0;
  for (std::string name; lines >> name >> value;) {
    if (name == prefix + "inactive_file" || name == prefix + "active_file") sum += value;
  }
  return sum;
}

}  // namespace

std::vector<MemoryLimit> memory_limits(const std::string& root) {
  std::vector<MemoryLimit> limits;
  for (const ControlGroup& group : control_groups(kController, root)) {
    const Files& files = group.version1 ? kFirst : kSecond;
    const auto limit = read_number(group.folder + files.limit);
    const auto usage = read_number(group.folder + files.usage);
    if (!limit || !usage || *limit >= kNoLimit) continue;
    const uint64_t held = *usage - std::min(*usage, droppable_bytes(group.folder, files.prefix));
    limits.push_back({group.path, *limit, *limit - std::min(*limit, held)});
  }
  return limits;
}

std::optional<std::string> memory_group(int64_t pid, const std::string& root) {
  return control_group_of(pid, kController, root);
}

}  // namespace rueda::core
