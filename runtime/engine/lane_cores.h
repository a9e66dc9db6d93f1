#pragma once
#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace rueda::core {

/// The core for a rank's lanes if its host has as many cores as ranks. A lane's thread works while its caller sleeps,
/// so the two belong on one core: a wake-up from core to core takes as long as a small batch. The kernel may put the
/// callers of two ranks on each other's cores, and leaves them there. The lanes of these ranks then change places.
///
/// Each rank has a share, its home, and publishes the core of its caller. A rank whose caller sits on the home of a
/// second rank, whose caller sits on the home of a third, and so on back to the first, has its lanes at its caller's
/// core. All other lanes are at home. All ranks compute this from the same words, so no two share a core for long.
class LaneCores {
 public:
  /// `cores` (ascending) are the homes by local rank, and all cores of the host. `words` are those of the ranks, in the
  /// same order and as many; they outlive this. A word is 0 until its rank has published a core, and then the core's
  /// number plus one.
  LaneCores(size_t local_rank, std::vector<int> cores, std::vector<std::atomic<uint32_t>*> words)
      : rank_(local_rank), cores_(std::move(cores)), words_(std::move(words)) {}

  /// A thread has slept on this core while a lane worked for it. Publishes the core after kSame such sleeps in a row.
  /// Any thread.
  void caller_slept(int core);
  /// Where lanes belong now: one of `cores`, whatever other ranks have published. Any thread.
  int core() const;
  const std::vector<int>& cores() const { return cores_; }

  static constexpr uint32_t kSame = 16;  ///< so that a caller that the kernel moves for a moment moves no lane

 private:
  size_t home_of(uint32_t published) const;

  const size_t rank_;
  const std::vector<int> cores_;
  const std::vector<std::atomic<uint32_t>*> words_;
  std::atomic<uint32_t> latest_{0};  ///< as in a word
  std::atomic<uint32_t> in_a_row_{0};
};

}  // namespace rueda::core
