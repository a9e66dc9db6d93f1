// Looks at processes by /proc. A number of a process means something in one namespace of one kernel only, so a mark
// names both: the boot's id, and the inode of the namespace.
#include "ops/cuda/member_processes.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string>

namespace rueda::cuda {
namespace {

uint64_t space_of_processes() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  struct stat space {};
  if (boot.empty() || ::stat("/proc/self/ns/pid", &space) != 0) return 0;
  return std::hash<std::string>()(boot) ^ static_cast<uint64_t>(space.st_ino);
}

/// One that its parent has not asked about yet has ended as well. The name before the state may hold anything, also
/// brackets.
bool has_ended(uint32_t number) {
  std::ifstream file("/proc/" + std::to_string(number) + "/stat");
  std::string line;
  if (!file) return true;
  std::getline(file, line);
  const size_t end = line.rfind(") ");
  const char state = end == std::string::npos || end + 2 >= line.size() ? 'X' : line[end + 2];
  return state == 'Z' || state == 'X';
}

}  // namespace

ProcessMark own_process() { return {space_of_processes(), static_cast<uint32_t>(::getpid())}; }

std::vector<int> ended_among(std::span<const MemberProcess> members) {
  std::vector<int> ranks;
  const uint64_t own = space_of_processes();
  for (const MemberProcess& member : members) {
    const bool is_visible = own != 0 && member.process.space == own;
    if (is_visible && has_ended(member.process.number)) ranks.push_back(member.rank);
  }
  return ranks;
}

}  // namespace rueda::cuda
