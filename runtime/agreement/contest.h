#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/agreement/batch_shape.h"

namespace rueda::core {

/// One contest of variants for batches of one class, decided by how long they take. Times are nanoseconds for each byte
/// of a batch, so batches of one class need not be of one size. Pure; owned by the tuner.
///
/// A variant's time is the shortest, and from four runs on the time that an eighth of its runs stay below: other work
/// on the machine only makes batches longer, and one lucky run must not decide. But if the times of one variant lie far
/// apart, as with more ranks than cores, its short batches tell little about the others. Its time is then the mean of
/// all but the longest eighth of its runs, and a contest takes kMostRounds instead of kRounds.
///
/// The more often a variant has run, the less it may lie behind the best to stay in the contest. The one that is left
/// wins, or the best of those that are left after the last round.
class Contest {
 public:
  /// How often each variant runs that stays to the end, and how often if times lie far apart.
  static constexpr int kRounds = 7;
  static constexpr int kMostRounds = 28;
  /// How many times of a variant are kept. Later ones change nothing.
  static constexpr size_t kMostTimes = 32;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  /// `fewest`: how often a variant runs before it may drop out.
  explicit Contest(const std::vector<Variant>& variants, int fewest = 1);
  /// A contest that was decided elsewhere for `winner`; undecided if that is not one of `variants`.
  Contest(const std::vector<Variant>& variants, const Variant& winner, double time, int fewest = 1);

  /// A contest of the same variants, without times.
  Contest anew() const;
  /// A contest of the same variants that was decided for `winner`, one of them, by this time.
  Contest decided_for(const Variant& winner, double time) const;
  /// Takes a time of a variant that an earlier contest has had; it decides nothing.
  void know(size_t index, double time) { entries_[index].times = {time}; }

  /// The variant to try next, as an index; empty if the contest is decided, or waits for times of its last trials.
  std::optional<size_t> next();
  /// Counts a trial as begun.
  void begin(size_t index) { ++entries_[index].begun; }
  /// Takes a time. Returns true if it decides the contest.
  bool took(size_t index, double time);
  /// Decides for the best so far; does nothing before the first time.
  void decide();
  /// The time of a variant so far; kNever if it has none.
  double time(size_t index) const;
  double best_time() const;
  /// Whether more times of the variant would change its time.
  bool wants_times(size_t index) const { return entries_[index].times.size() < kMostTimes; }

  size_t size() const { return entries_.size(); }
  const Variant& variant(size_t index) const { return entries_[index].variant; }
  std::optional<size_t> find(const Variant& variant) const;
  std::optional<size_t> winner() const { return winner_; }
  /// The variant with the shortest time so far; empty if none has a time.
  std::optional<size_t> leader() const;

 private:
  struct Entry {
    Variant variant;
    std::vector<double> times{};  ///< ascending
    int begun = 0;
    int heard = 0;
    bool out = false;
  };
  std::vector<Variant> variants() const;
  int rounds() const { return far_apart_ ? kMostRounds : kRounds; }
  void judge_spread();
  void drop_losers();
  uint64_t random();

  int fewest_;
  std::vector<Entry> entries_;
  std::optional<size_t> winner_;
  bool far_apart_ = false;                ///< as the comment on the class says
  uint64_t state_ = 0x9e3779b97f4a7c15u;  // any number but 0
};

}  // namespace rueda::core
