#include "runtime/engine/placement.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "runtime/base/usable_cores.h"

namespace rueda::core {

std::vector<int> allowed_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> share_of_cores(int local_rank, int local_size) {
  const std::vector<int> cores = allowed_cores();
  const auto count = static_cast<int>(cores.size());
  if (usable_cores() < local_size || count < ::sysconf(_SC_NPROCESSORS_ONLN)) return {};
  const int begin = count * local_rank / local_size;
  const int end = count * (local_rank + 1) / local_size;
  return {cores.begin() + begin, cores.begin() + end};
}

std::string confined_sentence(int rank) {
  const std::vector<int> cores = allowed_cores();
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (cores.size() != 1 || all < 2) return {};
  return fmt::format(
      "rank {} may use one core only, {} of {}: its computing and its communication take turns there. Start it unbound "
      "(mpirun --bind-to none, srun --cpu-bind=none) or with more cores (srun --cpus-per-task)",
      rank, cores.front(), all);
}

void place_thread(const std::string& name, const std::vector<int>& cores) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
  if (cores.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

}  // namespace rueda::core
