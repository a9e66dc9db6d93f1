#pragma once
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace rueda::core {

/// The core for a rank's lanes if its host has as many cores as ranks. A lane's thread works while its caller sleeps,
/// so the two belong on one core: a wake-up from core to core takes as long as a small batch. The kernel may put the
/// callers of two ranks on each other's cores, and leaves them there. The lanes of all ranks then change places.
///
/// Each rank publishes its caller's core. If these are all different, each rank's lanes go to its caller's core. If
/// not, all go home, to the rank's share. All ranks compute this from the same words, so no two share a core for long.
class LaneCores {
 public:
  /// `home` is one of the cores `allowed` to this process. `words` are those of the host's ranks, this rank's first,
  /// and outlive this; a word is 0 until its rank has published a core, and then one more than its number.
  LaneCores(int home, std::vector<int> allowed, std::vector<std::atomic<uint32_t>*> words)
      : home_(home), allowed_(std::move(allowed)), words_(std::move(words)) {}

  /// A thread on this core is about to sleep until a lane has finished. Published once kSame of them in a row were on
  /// one core. Any thread.
  void caller_sleeps(int core);
  /// Where lanes belong now. Any thread.
  int core() const;
  const std::vector<int>& allowed() const { return allowed_; }

  static constexpr uint32_t kSame = 16;

 private:
  const int home_;
  const std::vector<int> allowed_;
  const std::vector<std::atomic<uint32_t>*> words_;
  std::atomic<uint32_t> latest_{0};  ///< as in a word
  std::atomic<uint32_t> in_a_row_{0};
};

}  // namespace rueda::core
