#pragma once
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// The cores this thread may run on, ascending.
std::vector<int> allowed_cores();
/// The local rank's share of the allowed cores for the library's own threads. Empty (stay anywhere) if the share is all
/// of them, if ranks outnumber usable cores, or if the process was already confined to fewer cores than the machine
/// has.
std::vector<int> share_of_cores(int local_rank, int local_size);

/// The cores that a session puts its lanes on. Jobs that do not know of each other would all take the same ones and
/// leave others idle. So the first session has them for as long as it lives, and the threads of later ones stay where
/// the kernel puts them. The engine owns it.
class CoreClaim {
 public:
  /// Claims `cores` (ascending). Each session locks their bytes of `file` by open file description, so that the kernel
  /// ends a claim with its process. `file` is one that every user may open for writing; it is never written. Containers
  /// with a /dev of their own do not see each other's claims.
  explicit CoreClaim(const std::vector<int>& cores, const char* file = "/dev/null");
  /// All of them, or none if another session has one of them. All as well if nothing can be locked.
  const std::vector<int>& cores() const { return cores_; }
  void release() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::vector<int> cores_;
};

/// A sentence for the rank's log if its process may use one core of several, which the program's threads and the
/// library's then share; else empty.
std::string confined_sentence(int rank);
/// Names the calling thread and confines it to `cores` unless empty. Only for the library's own threads.
void place_thread(const std::string& name, const std::vector<int>& cores);

/// Moves the calling thread to `core`. The thread may run afterwards on the cores that it could run on before, unless
/// another thread has changed these meanwhile. No signal handler runs on the thread in between, because a thread or
/// process that a handler starts would inherit the one core. Returns false if the thread may not run on `core`, or if
/// the kernel refuses.
bool move_thread(int core);

/// Keeps the calling thread on the core of another thread for a while, so that what both touch stays in one cache.
class CoreVisit {
 public:
  /// `home`: what the thread may use otherwise.
  explicit CoreVisit(std::vector<int> home) : home_(std::move(home)) {}
  /// Does nothing if `core` does not belong to `home`. The kernel may refuse; then the thread stays where it may be.
  void stay_on(int core);
  /// Ends the visit. Call it before the thread starts another one, which may run where its maker may.
  void go_home();

 private:
  std::vector<int> home_;
  int core_ = -1;  ///< -1: at home
};

}  // namespace rueda::core
