#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/agreement/batch_shape.h"
#include "runtime/agreement/challenges.h"
#include "runtime/agreement/contest.h"
#include "runtime/base/deadline.h"

namespace rueda::core {

/// Batches for which one choice is kept: alike in everything that the choice depends on.
struct TuneClass {
  OpKind kind = OpKind::kAllreduce;
  Dtype dtype = Dtype::kF32;
  CodecId codec = CodecId::kNone;
  uint8_t size = 0;            ///< `size_class` of its bytes
  bool short_tensors = false;  ///< shorter than a page on average
  int ranks = 1;
  int hosts = 1;
  int largest_host = 1;
  Distance distance = Distance::kUnknown;
  friend auto operator<=>(const TuneClass&, const TuneClass&) = default;
};
/// Two classes for each doubling of `bytes`, which are not 0.
uint8_t size_class(uint64_t bytes);
/// The fewest bytes of a class.
uint64_t least_bytes(uint8_t size_class);

/// A choice that was measured, as a tune file keeps it.
struct TunedChoice {
  TuneClass batches;
  Variant variant;
  double time = 0;  ///< nanoseconds for each byte
};

/// What a line of the log is about. kOwn and kOther are of a check: the choice, and another variant beside it.
enum class TrialRole : uint8_t { kTrial, kChosen, kOwn, kOther };

/// What the tuner tells a log: a batch has been timed.
struct TrialReport {
  SteadyClock::time_point at;
  SetId set = kGlobalSet;
  TuneClass batches;
  Variant variant;
  uint64_t bytes = 0;
  std::chrono::nanoseconds took{0};
  TrialRole role = TrialRole::kTrial;  ///< kChosen: the variant is the class's choice from now on
};

/// Rank 0's choice among variants that give the same bits, by their times in the program's own batches. For each
/// process set and class of batches it holds a contest, and then one among refinements of its winner. Small batches,
/// which have one good way, and kinds without variants take what is chosen without a tuner. Each distance of the cores
/// has contests of its own, whose results are kept: when the cores move, the choice that was right there before is back
/// at once. Later batches are timed now and then; if their times stay changed, a new contest begins. Now and then one
/// of the other variants runs beside the choice, and takes its place if it is better again and again.
///
/// A batch is compared with others only if batches in the same variant have run before it for kWarmUp, one to
/// kMostWarmUps of them: the first ones find the caches and the ranks as another variant has left them. Batches of
/// other classes may come between, as they do in the program. Batches that take longer than kNeedNone need no others.
///
/// What trials and the batches that warm up for them cost beyond the best variant known comes out of a purse: 200 ms at
/// the start, and a thousandth of the time that passes, never more than 200 ms together. A trial whose cost cannot be
/// known, or that is given up, counts as twice the best time.
///
/// Pure: it is told the time and the times of trials. Rank 0's engine owns it; the baton's holder uses it.
class Tuner {
 public:
  struct Parts {
    std::function<SteadyClock::time_point()> now;
    /// The variants for a shape, the same for all shapes of a class as far as possible; fewer than two: no choice.
    std::function<std::vector<Variant>(const BatchShape&)> variants;
    /// The variant and what else differs from it in waits and slots, tried once the variant is decided. May be empty.
    std::function<std::vector<Variant>(const BatchShape&, const Variant&)> refinements = {};
    /// May be empty.
    std::function<void(const TrialReport&)> report;
    /// Batches that would run in a choice run in it and in another variant in turn, and are timed for the report.
    bool check = false;
  };
  explicit Tuner(Parts parts);

  /// What the next batch of this shape runs with.
  struct Pick {
    std::optional<Variant> variant;  ///< empty: what is chosen without a tuner
    uint64_t trial = 0;              ///< as in AlgorithmChoice
  };
  Pick pick(const BatchShape& shape);
  /// Ignores trials that it does not know: the report is late, or a lie.
  void timed(const TrialTime& time);

  /// A choice that was measured before, on this machine: the class's contest begins decided. Before the first `pick`.
  void recall(const TunedChoice& choice) { recalled_[choice.batches] = choice; }
  /// All choices that are made, recalled ones included.
  std::vector<TunedChoice> choices() const;
  /// What trials under way and plans hold of the purse.
  std::chrono::nanoseconds held() const { return std::chrono::nanoseconds(static_cast<int64_t>(held_)); }

  static constexpr std::chrono::milliseconds kPurse{200};
  static constexpr uint64_t kLeastBytes = 16 << 10;
  static constexpr std::chrono::microseconds kWarmUp{500};
  static constexpr int kMostWarmUps = 4;
  static constexpr std::chrono::milliseconds kNeedNone{5};

 private:
  /// A batch that is to be timed once its variant has warmed up.
  struct Run {
    Variant variant;
    uint64_t bytes = 0;  ///< of the batch; 0: any. Batches of other sizes take another time for each byte
    int batches = 1;     ///< how many the plan counts on, with those that warm up
    double cost = 0;     ///< of these, in nanoseconds of the purse
    double price = 0;    ///< of each byte, in nanoseconds of the purse
    uint64_t ran = 0;    ///< bytes of the warm-ups so far
    TrialRole role = TrialRole::kTrial;
    uint64_t pair = 0;  ///< of Challenges; 0: of none
    bool challenges = false;
    bool contests = false;  ///< its time is one of the contest
  };
  /// One class at one distance, in one process set.
  struct Course {
    std::optional<Contest> contest;  ///< empty until the first batches are over
    std::vector<Variant> variants;   ///< of the first contest
    int fewest = 1;                  ///< runs before one of them may drop out
    bool refined = false;            ///< `contest` is the second one, among refinements of the first one's winner
    double reference = Contest::kNever;
    int untimed = 0;  ///< batches since the last trial
    int odd = 0;      ///< trials in a row that took another time than the winner did
    size_t checked = 0;
    std::optional<Challenges> challenges;  ///< of the choice; empty until it is used first
    int tours = 0;                         ///< of challenges, and the choices that they have replaced
    std::deque<Run> runs;                  ///< the plan: batches to be timed, in this order
    int waited = 0;                        ///< batches since the plan was made, or since one of them was timed
    uint64_t looked_at = 0;                ///< the number of the last pick that went on with the plan
    std::optional<Variant> last;           ///< what the last batch ran in; empty: not known
    int in_a_row = 0;                      ///< batches in `last` since one that was timed, at most kMostWarmUps
    uint64_t restarts = 0;
    SteadyClock::time_point decided;
  };
  struct Group {
    int first_batches = 0;  ///< before the first contest
    uint64_t used = 0;      ///< the number of the last pick
    Distance distance = Distance::kUnknown;
    std::array<Course, 3> courses;
    Course& course() { return courses[static_cast<size_t>(distance)]; }
  };
  using GroupKey = std::pair<SetId, TuneClass>;  ///< the distance is kUnknown
  struct Trial {
    uint64_t number = 0;
    GroupKey key;
    std::optional<Variant> variant;  ///< empty: without a tuner's choice
    uint64_t bytes = 0;
    double held = 0;    ///< nanoseconds of the purse that nothing else may spend meanwhile
    uint64_t ran = 0;   ///< bytes of this batch and of those that have warmed up for it
    uint64_t pick = 0;  ///< the number of its pick
    TrialRole role = TrialRole::kTrial;
    uint64_t pair = 0;  ///< of Challenges; 0: of none
    bool challenges = false;
  };

  Group& group_of(const GroupKey& key);
  void begin(const GroupKey& key, Group& group, const BatchShape& shape);
  bool resume(Course& course, const TunedChoice& known, const BatchShape& shape);
  void refine(Course& course, const BatchShape& shape);
  std::vector<Variant> refinements_of(const BatchShape& shape, const Variant& variant) const;
  static std::optional<size_t> leader_of(const Course& course);
  static std::optional<Variant> best_of(const Course& course);
  Pick choose(const GroupKey& key, Group& group, const BatchShape& shape);
  Pick try_next(const GroupKey& key, Course& course, const BatchShape& shape);
  void give_up_waiting(const GroupKey& key, Course& course, const BatchShape& shape);
  Pick without_trial(const GroupKey& key, Course& course, const BatchShape& shape);
  Pick decided(const GroupKey& key, Course& course, const BatchShape& shape);
  Pick begin_pair(const GroupKey& key, Course& course, const BatchShape& shape);
  Pick begin_check(const GroupKey& key, Course& course, const BatchShape& shape, const Variant& own);
  void plan(Course& course, std::deque<Run> runs);
  void give_up(Course& course);
  void give_up_unseen();
  void pass(Course& course, const BatchShape& shape);
  Pick go_on(const GroupKey& key, Course& course, const BatchShape& shape);
  static void set_price(Run& run, double price, const BatchShape& shape);
  static int warm_ups(const Course& course, const Variant& variant, const BatchShape& shape);
  static bool is_warm(const Course& course, const Variant& variant, int needed);
  static void note_run(Course& course, const Pick& pick);
  bool can_pay(double cost);
  std::vector<Variant> ways_beside(const Course& course) const;
  bool judge(const Trial& trial, Course& course, const TrialTime& time, double per_byte);
  Pick start(const GroupKey& key, const std::optional<Variant>& variant, const BatchShape& shape);
  std::optional<Variant> neighbour(const GroupKey& key, const Contest& contest) const;
  void take(const Trial& trial, Course& course, const TrialTime& time);
  void tell(const Trial& trial, const TrialTime& time) const;
  void tell_choice(const GroupKey& key, Distance distance, uint64_t bytes, const Contest& contest) const;
  void watch(Course& course, double time);
  void refill();
  void pay(double cost);
  void forget_oldest();

  Parts parts_;
  std::map<GroupKey, Group> groups_;
  std::map<TuneClass, TunedChoice> recalled_;
  std::deque<Trial> trials_;  ///< under way, by number
  uint64_t last_trial_ = 0;
  uint64_t last_pair_ = 0;
  uint64_t picks_ = 0;
  double purse_;        ///< nanoseconds
  double held_ = 0;     ///< of them, for trials under way and for plans
  uint64_t swept_ = 0;  ///< the number of the last pick that looked for plans whose batches do not come
  SteadyClock::time_point filled_;
};

}  // namespace rueda::core
