// How the tuner has batches timed, and pays for them.
//
//   plan ─▶ go_on, batch by batch ─▶ not warm: the variant runs without being timed
//                                └─▶ warm: start, a trial
//
// The purse holds the cost of what is planned, so that plans of several classes cannot spend it twice.
#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/agreement/tuner.h"

namespace rueda::core {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kMostTrials = 64;
/// Batches after which a trial without a report counts as lost: its set has gone, or its member has. A plan whose
/// batches do not come is given up after as many.
constexpr uint64_t kMostUnheard = 256;
/// A plan is given up if so many more batches have run than its variant needs to warm up: batches of other sizes, or of
/// fewer ranks.
constexpr int kMostWaited = 3;
constexpr double kRefill = 1e-3;

double count(nanoseconds time) { return static_cast<double>(time.count()); }

}  // namespace

void Tuner::plan(Course& course, std::deque<Run> runs) {
  for (const Run& run : runs) held_ += run.cost;
  course.runs = std::move(runs);
  course.waited = 0;
  course.looked_at = picks_;
}

/// Forgets what was planned. The purse pays for the batches that have run for it.
void Tuner::give_up(Course& course) {
  const bool pair = !course.runs.empty() && course.runs.front().pair != 0;
  if (pair && course.challenges) course.challenges->gave_up(parts_.now());
  for (const Run& run : course.runs) {
    held_ -= run.cost;
    pay(run.price * static_cast<double>(run.ran));
  }
  course.runs.clear();
}

/// A batch that is not timed runs, although one is to be timed.
void Tuner::pass(Course& course, const BatchShape& shape) {
  if (course.runs.empty()) return;
  const int most = warm_ups(course, course.runs.front().variant, shape) + kMostWaited;
  if (++course.waited > most) give_up(course);
}

/// Runs the next of the batches that are to be timed, or one that warms up for it. A batch of another size warms up,
/// too, or runs in the best variant if no warm-up is needed.
Tuner::Pick Tuner::go_on(const GroupKey& key, Course& course, const BatchShape& shape) {
  course.looked_at = picks_;
  Run& next = course.runs.front();
  const bool fits = next.bytes == 0 || next.bytes == shape.bytes;
  const int needed = warm_ups(course, next.variant, shape);
  if (!fits || !is_warm(course, next.variant, needed)) {
    const Variant variant = next.variant;
    if (needed > 0) next.ran += shape.bytes;
    pass(course, shape);
    return {course.runs.empty() || needed == 0 ? best_of(course) : variant, 0};
  }
  const Run run = next;
  course.runs.pop_front();
  course.waited = 0;
  if (run.contests) {
    course.contest->begin(*course.contest->find(run.variant));
    course.untimed = 0;
  }
  const Pick pick = start(key, run.variant, shape);
  Trial& trial = trials_.back();
  trial.held = run.cost;
  trial.ran = run.ran + shape.bytes;
  trial.role = run.role;
  trial.pair = run.pair;
  trial.challenges = run.challenges;
  return pick;
}

/// price: what the purse pays for each byte of the run's batches, in nanoseconds.
void Tuner::set_price(Run& run, double price, const BatchShape& shape) {
  run.price = price;
  run.cost = price * static_cast<double>(shape.bytes) * run.batches;
}

/// Returns how many batches in a variant come before one that is timed. Of a variant
/// that has no time in this contest it is assumed that it takes as long as the best.
int Tuner::warm_ups(const Course& course, const Variant& variant, const BatchShape& shape) {
  const std::optional<size_t> index = course.contest->find(variant);
  const double own = index ? course.contest->time(*index) : Contest::kNever;
  const double per_byte = own == Contest::kNever ? std::min(course.contest->best_time(), course.reference) : own;
  const double takes = per_byte * static_cast<double>(shape.bytes);
  if (per_byte == Contest::kNever || takes >= count(kNeedNone)) return 0;
  return static_cast<int>(std::clamp(std::ceil(count(kWarmUp) / takes), 1.0, double{kMostWarmUps}));
}

bool Tuner::is_warm(const Course& course, const Variant& variant, int needed) {
  return needed == 0 || (course.last == variant && course.in_a_row >= needed);
}

/// A timed batch does not count as a warm-up: its time travels with the frames of the next batch, which takes longer
/// for it.
void Tuner::note_run(Course& course, const Pick& pick) {
  if (!pick.variant || course.last != pick.variant || pick.trial != 0) course.in_a_row = 0;
  course.last = pick.variant;
  if (pick.variant && pick.trial == 0 && course.in_a_row < kMostWarmUps) ++course.in_a_row;
}

Tuner::Pick Tuner::start(const GroupKey& key, const std::optional<Variant>& variant, const BatchShape& shape) {
  if (trials_.size() == kMostTrials) forget_oldest();
  Trial& trial = trials_.emplace_back();
  trial.number = ++last_trial_;
  trial.key = key;
  trial.variant = variant;
  trial.bytes = trial.ran = shape.bytes;
  trial.pick = picks_;
  return {variant, last_trial_};
}

bool Tuner::can_pay(double cost) {
  refill();
  if (purse_ - held_ < cost && held_ > 0) give_up_unseen();
  return purse_ - held_ >= cost;
}

/// Batches of a set that is gone must not hold the purse for ever.
void Tuner::give_up_unseen() {
  if (picks_ - swept_ <= kMostUnheard) return;
  swept_ = picks_;
  for (auto& [key, group] : groups_) {
    for (Course& course : group.courses) {
      if (picks_ - course.looked_at > kMostUnheard) give_up(course);
    }
  }
}

/// What a trial holds of the purse is free again when no report can be expected any more.
void Tuner::refill() {
  while (!trials_.empty() && picks_ - trials_.front().pick > kMostUnheard) forget_oldest();
  const auto now = parts_.now();
  const double passed = static_cast<double>(std::chrono::duration_cast<nanoseconds>(now - filled_).count());
  purse_ = std::min(count(kPurse), purse_ + passed * kRefill);
  filled_ = now;
}

/// A process that was stopped in a trial must not stop tuning for days.
void Tuner::pay(double cost) { purse_ = std::max(purse_ - cost, -count(kPurse)); }

void Tuner::forget_oldest() {
  held_ -= trials_.front().held;
  trials_.pop_front();
}

}  // namespace rueda::core
