#pragma once
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// The cores this thread may run on, ascending.
std::vector<int> allowed_cores();
/// The local rank's share of the allowed cores for the library's own threads; empty (stay anywhere) when it is all of
/// them, when ranks outnumber usable cores, or the process was already confined to fewer cores than the machine has.
std::vector<int> share_of_cores(int local_rank, int local_size);

/// Cores that a session places its lanes on. Jobs that do not know of each other would all take the same ones, and
/// leave others idle: the first has them, for as long as it lives, and later ones stay where the kernel puts them.
class CoreClaim {
 public:
  /// Of `cores`, ascending. Every session of the machine locks their bytes of `file`, by open file descriptions, so
  /// that the kernel ends a claim with its process: a file that everybody has and may write, and that is never written.
  /// Containers with a /dev of their own do not see each other's.
  explicit CoreClaim(const std::vector<int>& cores, const char* file = "/dev/null");
  /// All of them, or none where another session has one. All, too, where nothing can be locked.
  const std::vector<int>& cores() const { return cores_; }
  void release() { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::vector<int> cores_;
};

/// A sentence for the rank's log where its process may use one core of several, which its own threads and ours then
/// share; empty otherwise.
std::string confined_sentence(int rank);
/// Names the calling thread and confines it to `cores` unless empty. The caller's threads are never touched.
void place_thread(const std::string& name, const std::vector<int>& cores);

}  // namespace rueda::core
