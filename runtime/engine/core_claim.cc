// Which cores the library's own threads use. Ranks of one job share the machine by their local numbers. Jobs know
// nothing of each other, so each session locks one byte per core in a file that all have, and the first one wins.
#include "runtime/engine/core_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "runtime/base/usable_cores.h"

namespace rueda::core {
namespace {

/// Far from any offset that another program would lock in this file.
constexpr off_t kFirstByte = off_t{0x7275656461} << 16;

/// Locks the byte of `core`; true if another session holds it. A file system without locks counts as free: a claim is
/// an improvement, and no session fails for lack of it.
bool taken(int file, int core) {
  struct flock byte {};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = kFirstByte + core;
  byte.l_len = 1;
  return ::fcntl(file, F_OFD_SETLK, &byte) != 0 && (errno == EAGAIN || errno == EACCES);
}

void confine(std::span<const int> cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

/// Lets the calling thread run on `cores` again. The kernel keeps the mask that a thread asks for, and a cpuset that
/// grows later reaches it only within that. So it asks for every core that there may ever be, and for `cores` only if
/// these were fewer than it then gets.
void widen(const cpu_set_t& cores) {
  cpu_set_t every, now;
  CPU_ZERO(&now);
  std::memset(&every, 0xff, sizeof every);
  const bool wide = ::sched_setaffinity(0, sizeof every, &every) == 0;
  if (wide && ::sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &cores)) return;
  ::sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace

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

/// Consecutive cores in the order of local ranks, as even as they come: neighbours often share a cache.
std::vector<int> share_of_cores(int local_rank, int local_size) {
  const std::vector<int> cores = allowed_cores();
  const auto count = static_cast<int>(cores.size());
  // Ranks that outnumber the cores are left to the kernel. So is a process that a launcher or a container has confined.
  if (usable_cores() < local_size || count < ::sysconf(_SC_NPROCESSORS_ONLN)) return {};
  const int begin = count * local_rank / local_size;
  const int end = count * (local_rank + 1) / local_size;
  if (end - begin == count) return {};
  return {cores.begin() + begin, cores.begin() + end};
}

CoreClaim::CoreClaim(const std::vector<int>& cores, const char* file) : cores_(cores) {
  if (cores.empty()) return;
  fd_ = UniqueFd(::open(file, O_RDWR | O_CLOEXEC));
  if (std::none_of(cores.begin(), cores.end(), [&](int core) { return taken(fd_.get(), core); })) return;
  fd_.reset();  // gives back the bytes that this session did get
  cores_.clear();
}

std::string confined_sentence(int rank) {
  const std::vector<int> cores = allowed_cores();
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  if (cores.size() != 1 || all < 2) return {};
  return fmt::format(
      "rank {} may use one core only, {} of {}: computing and communication take turns there. Start the rank unbound "
      "(mpirun --bind-to none, srun --cpu-bind=none) or with more cores (srun --cpus-per-task)",
      rank, cores.front(), all);
}

void place_thread(const std::string& name, const std::vector<int>& cores) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());  // the kernel's limit
  if (!cores.empty()) confine(cores);
}

bool move_thread(int core) {
  cpu_set_t before, one, now;
  CPU_ZERO(&before);
  CPU_ZERO(&one);
  CPU_ZERO(&now);
  if (core < 0 || core >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof before, &before) != 0) return false;
  CPU_SET(static_cast<size_t>(core), &one);
  if (!CPU_ISSET(static_cast<size_t>(core), &before)) return false;
  sigset_t all, mask;
  ::sigfillset(&all);
  if (::pthread_sigmask(SIG_SETMASK, &all, &mask) != 0) return false;
  const bool moved = ::sched_setaffinity(0, sizeof one, &one) == 0;
  if (moved && ::sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &one)) widen(before);
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return moved;
}

void CoreVisit::stay_on(int core) {
  if (core == core_ || std::find(home_.begin(), home_.end(), core) == home_.end()) return;
  core_ = core;
  confine({&core, 1});
}

void CoreVisit::go_home() {
  if (core_ < 0) return;
  core_ = -1;
  confine(home_);
}

}  // namespace rueda::core
