#pragma once
#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/base/deadline.h"

namespace rueda::core {

/// Spreads the waiting ranks of a host evenly over its cores if ranks outnumber cores. Ranks on one core run in turns,
/// so a small batch takes as long as the core with the most ranks. To the kernel all of them are equally busy, and it
/// sometimes leaves three of four ranks on one of two cores for a tenth of a second and more.
///
/// Each rank publishes the core of the thread that waits for it. If a core has at least two ranks more than another
/// one, the highest rank there moves, of those that can. It publishes the new core before it moves, so ranks of other
/// cores seldom choose the same one. A word may be old if its rank computes or sleeps. A move that was wrong costs a
/// few tens of microseconds, and moves that follow each other soon become rare.
class RankSpread {
 public:
  /// `cores` (ascending): those that ranks may use. `words` are those of the host's ranks by local rank; they outlive
  /// this. A word is 0 until its rank has published a core, and then the core's number plus one, and kFixed if the rank
  /// cannot move. Nobody moves before all have published one of `cores`.
  RankSpread(size_t local_rank, std::vector<int> cores, std::vector<std::atomic<uint32_t>*> words);

  /// The calling thread has yielded its core while it waited for other ranks. Publishes where it runs, and moves it to
  /// another core now and then. It may run afterwards on the cores that it could run on before. One thread at a time.
  void yielded() noexcept;

  /// Its parts. `look` returns the core to move to from `core`, which is published then.
  void publish(int core) noexcept;
  std::optional<int> look(int core, SteadyClock::time_point now) noexcept;
  /// The move was refused: the program has confined the thread. Other ranks of the core move from now on.
  void stay(int core) noexcept;

  static constexpr uint32_t kFixed = 1u << 31;
  static constexpr std::chrono::milliseconds kSteady{1};  ///< how long ranks are uneven before one moves
  static constexpr std::chrono::milliseconds kGap{4};     ///< after a longer time without a look, kSteady begins again
  /// Between two moves of a rank. Doubles up to kLongestRest with each move that comes within twice as long as the
  /// rest before it: something other than ranks uses the cores then, and the kernel knows better.
  static constexpr std::chrono::milliseconds kRest{10};
  static constexpr std::chrono::milliseconds kLongestRest{1000};

 private:
  std::optional<int> emptier(int core);
  size_t index_of(int core) const;

  const size_t rank_;
  uint32_t fixed_ = 0;  ///< kFixed once a move was refused
  const std::vector<int> cores_;
  const std::vector<std::atomic<uint32_t>*> words_;
  std::vector<int> ranks_;  ///< by index of a core; here so that a wait never lacks the memory for it
  uint32_t yields_ = 0;
  std::optional<SteadyClock::time_point> uneven_since_;
  SteadyClock::time_point looked_{}, moved_{}, next_{};
  std::chrono::nanoseconds rest_ = kRest;
};

}  // namespace rueda::core
