// How many cores this process may really use. In a container the machine's number is wrong twice: the affinity mask can
// be smaller, and a quota of the control group can grant a fraction of the time.
#include "runtime/base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace rueda::core {
namespace {

// Version 2 writes the group as `0::/path`. Each group above can have a quota of its own, and the smallest holds.
double quota_cores() {
  double cores = 1e9;
  std::ifstream groups("/proc/self/cgroup");
  std::string path;
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  for (;;) {
    std::ifstream file("/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    double period = 0;
    if (file >> quota >> period && quota != "max" && period > 0) cores = std::min(cores, std::stod(quota) / period);
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return cores;
    path.erase(slash);
  }
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, static_cast<int>(std::min<double>(allowed, std::ceil(quota_cores()))));
}

}  // namespace rueda::core
