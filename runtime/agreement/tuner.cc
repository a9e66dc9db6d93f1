// Rank 0 chooses by trial: it runs the program's own batches in different ways and keeps the fastest.
//
//   pick  ─▶ the class's group ─▶ the first two batches; the second is timed: the reference
//                             └─▶ the course at the cores' distance
//                                   ├─ undecided: the contest's next, if the purse allows it
//                                   ├─ decided once: a contest of the winner's refinements
//                                   └─ decided:   the winner, timed now and then, perhaps beside a challenger
//   a batch that is to be timed ─▶ plan ─▶ go_on: its variant warms up first
//   timed ─▶ the trial ─▶ the purse pays ─▶ the contest
//                      └─ the winner's: if times stay odd, a new contest
//
// A trial's number travels with its batch to the set's lowest member and comes back with the time. So any set can be
// tuned, rank 0 being in it or not. A report may be lost: nothing waits for one.
#include "runtime/agreement/tuner.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace rueda::core {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr int kFirstBatches = 2;
constexpr size_t kMostTuned = 512;
/// A decided course times one batch of so many, and more while times are odd.
constexpr int kTimedOneOf = 32;
constexpr int kOddOneOf = 4;
/// A trial is odd if it takes more than kOdd times the winner's time, or less than that time / kOdd. kOddTrials in a
/// row begin a new contest.
constexpr double kOdd = 1.5;
constexpr int kOddTrials = 4;
/// How long a decision holds at least. Doubles with each new contest.
constexpr seconds kHolds{10};
constexpr uint64_t kMostDoublings = 5;
/// After so many batches without a trial, a contest is decided without its missing times, or the reference is taken
/// again.
constexpr int kMostUntimed = 16;
constexpr uint64_t kPageBytes = 4096;
/// On one host, batches below this cost so little that a variant has kFewestCheap runs before it may drop out: while a
/// program starts, other work may make one batch ten times as long.
constexpr uint64_t kCheapBytes = 1 << 20;
constexpr int kFewestCheap = 3;

bool has_variants(const BatchShape& shape) {
  const bool kind = shape.kind == OpKind::kAllreduce || shape.kind == OpKind::kBroadcast ||
                    shape.kind == OpKind::kReducescatter || shape.kind == OpKind::kReduce;
  return kind && shape.ranks > 1 && shape.device < 0 && !shape.shared && shape.op != ReduceOp::kAdasum &&
         shape.bytes >= Tuner::kLeastBytes;
}

TuneClass class_of(const BatchShape& shape) {
  TuneClass batches;
  batches.kind = shape.kind;
  batches.dtype = shape.dtype;
  batches.codec = shape.codec;
  batches.size = size_class(shape.bytes);
  batches.short_tensors = shape.bytes < shape.tensors * kPageBytes;
  batches.ranks = shape.ranks;
  batches.hosts = shape.hosts;
  batches.largest_host = shape.largest_host;
  return batches;
}

TuneClass at(TuneClass batches, Distance distance) {
  batches.distance = distance;
  return batches;
}

Variant unrefined(const Variant& variant) { return {variant.algorithm, variant.chunk_shift, variant.stores}; }

}  // namespace

uint8_t size_class(uint64_t bytes) {
  const auto log = static_cast<int>(std::bit_width(bytes)) - 1;
  const bool upper_half = log > 0 && (bytes >> (log - 1) & 1) != 0;
  return static_cast<uint8_t>(2 * log + (upper_half ? 1 : 0));
}

uint64_t least_bytes(uint8_t size_class) {
  const uint64_t power = uint64_t{1} << size_class / 2;
  return size_class % 2 == 0 ? power : power + power / 2;
}

Tuner::Tuner(Parts parts)
    : parts_(std::move(parts)), purse_(static_cast<double>(nanoseconds(kPurse).count())), filled_(parts_.now()) {}

Tuner::Pick Tuner::pick(const BatchShape& shape) {
  if (!has_variants(shape)) return {};
  const GroupKey key(shape.set, class_of(shape));
  Group& group = group_of(key);
  const Pick pick = choose(key, group, shape);
  note_run(group.course(), pick);
  return pick;
}

Tuner::Pick Tuner::choose(const GroupKey& key, Group& group, const BatchShape& shape) {
  Course& course = group.course();
  if (!course.contest && (group.first_batches >= kFirstBatches || recalled_.contains(at(key.second, group.distance)))) {
    begin(key, group, shape);
  }
  const bool all_contribute = shape.absent == 0;
  if (!course.contest) {
    if (++group.first_batches < kFirstBatches || !all_contribute) return {};
    return start(key, std::nullopt, shape);
  }
  if (!all_contribute) {
    pass(course, shape);
    return {best_of(course), 0};
  }
  if (course.contest->winner() && !course.refined) refine(course, shape);
  if (course.contest->size() < 2) return {best_of(course), 0};
  if (!course.runs.empty()) return go_on(key, course, shape);
  const Pick own = course.contest->winner() ? decided(key, course, shape) : try_next(key, course, shape);
  if (!parts_.check || own.trial != 0 || !own.variant || !course.runs.empty()) return own;
  return begin_check(key, course, shape, *own.variant);
}

/// A program that makes new sizes or sets for ever must not fill the memory.
Tuner::Group& Tuner::group_of(const GroupKey& key) {
  const auto found = groups_.find(key);
  if (found == groups_.end() && groups_.size() >= kMostTuned) {
    const auto oldest = std::min_element(groups_.begin(), groups_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    for (Course& course : oldest->second.courses) give_up(course);
    groups_.erase(oldest);
  }
  Group& group = found == groups_.end() ? groups_[key] : found->second;
  group.used = ++picks_;
  return group;
}

void Tuner::begin(const GroupKey& key, Group& group, const BatchShape& shape) {
  Course& course = group.course();
  const auto known = recalled_.find(at(key.second, group.distance));
  course.decided = parts_.now();
  course.variants = parts_.variants(shape);
  course.fewest = shape.hosts == 1 && shape.bytes < kCheapBytes ? kFewestCheap : 1;
  if (known == recalled_.end() || !resume(course, known->second, shape))
    course.contest = Contest(course.variants, course.fewest);
}

/// Begins with a choice that is known. Returns false if no variant, and no refinement of one, is like it.
bool Tuner::resume(Course& course, const TunedChoice& known, const BatchShape& shape) {
  for (const Variant& variant : course.variants) {
    const std::vector<Variant> refinements = refinements_of(shape, variant);
    if (std::find(refinements.begin(), refinements.end(), known.variant) == refinements.end()) continue;
    course.refined = refinements.size() > 1;
    course.contest = Contest(course.refined ? refinements : course.variants, known.variant, known.time, course.fewest);
    return true;
  }
  return false;
}

std::vector<Variant> Tuner::refinements_of(const BatchShape& shape, const Variant& variant) const {
  return parts_.refinements ? parts_.refinements(shape, variant) : std::vector<Variant>{variant};
}

/// The winner keeps its time, so trials of the others have a price, and batches without a trial run as before.
void Tuner::refine(Course& course, const BatchShape& shape) {
  course.refined = true;
  const size_t winner = *course.contest->winner();
  Contest next(refinements_of(shape, course.contest->variant(winner)), course.fewest);
  const std::optional<size_t> same = next.find(course.contest->variant(winner));
  if (next.size() < 2 || !same) return;
  next.know(*same, course.contest->time(winner));
  course.contest = next;
  course.untimed = 0;
}

/// Returns nothing while the choice made without a tuner has been faster than the few variants tried so far.
std::optional<size_t> Tuner::leader_of(const Course& course) {
  const Contest& contest = *course.contest;
  const std::optional<size_t> leader = contest.leader();
  const bool first = !contest.winner() && !course.refined;
  return first && leader && contest.time(*leader) > course.reference ? std::nullopt : leader;
}

std::optional<Variant> Tuner::best_of(const Course& course) {
  const std::optional<size_t> leader = leader_of(course);
  return leader ? std::optional(course.contest->variant(*leader)) : std::nullopt;
}

Tuner::Pick Tuner::try_next(const GroupKey& key, Course& course, const BatchShape& shape) {
  Contest& contest = *course.contest;
  const std::optional<size_t> next = contest.next();
  if (!next) {
    if (++course.untimed > kMostUntimed) give_up_waiting(key, course, shape);
    return {best_of(course), 0};
  }
  const double best = std::min(contest.best_time(), course.reference);
  if (best == Contest::kNever) return start(key, std::nullopt, shape);
  const Variant& variant = contest.variant(*next);
  const int batches =
      1 + std::max(0, warm_ups(course, variant, shape) - (course.last == variant ? course.in_a_row : 0));
  const double behind = contest.time(*next) == Contest::kNever ? best : std::max(0.0, contest.time(*next) - best);
  Run run{variant, 0, batches};
  set_price(run, behind, shape);
  if (!can_pay(run.cost)) return without_trial(key, course, shape);
  run.contests = true;
  plan(course, {run});
  return go_on(key, course, shape);
}

/// The best of the variants that were heard of; if none was, all begin again.
void Tuner::give_up_waiting(const GroupKey& key, Course& course, const BatchShape& shape) {
  course.untimed = 0;
  give_up(course);
  course.decided = parts_.now();
  if (!leader_of(course)) {
    course.contest = course.contest->anew();
    return;
  }
  course.contest->decide();
  tell_choice(key, groups_.at(key).distance, shape.bytes, *course.contest);
}

/// A reference that other work has made long would forbid trials for ever, so it is taken again.
Tuner::Pick Tuner::without_trial(const GroupKey& key, Course& course, const BatchShape& shape) {
  if (const std::optional<size_t> leader = leader_of(course)) {
    const Variant& variant = course.contest->variant(*leader);
    // Costs nothing, and shows whether it leads by luck.
    const bool timed =
        course.contest->wants_times(*leader) && is_warm(course, variant, warm_ups(course, variant, shape));
    return timed ? start(key, variant, shape) : Pick{variant, 0};
  }
  if (++course.untimed < kMostUntimed) return {neighbour(key, *course.contest), 0};
  course.untimed = 0;
  return start(key, std::nullopt, shape);
}

Tuner::Pick Tuner::decided(const GroupKey& key, Course& course, const BatchShape& shape) {
  const Variant& winner = course.contest->variant(*course.contest->winner());
  if (++course.untimed < (course.odd > 0 ? kOddOneOf : kTimedOneOf)) return {winner, 0};
  course.untimed = 0;
  if (!course.challenges) {
    std::vector<Variant> ways = ways_beside(course);
    std::erase(ways, winner);
    course.challenges.emplace(std::move(ways), parts_.now(), course.tours);
  }
  const double takes = course.contest->time(*course.contest->winner()) * static_cast<double>(shape.bytes);
  const bool due = course.challenges->due(parts_.now());
  if (due && can_pay(takes * (1 + warm_ups(course, course.challenges->challenger(), shape)))) {
    return begin_pair(key, course, shape);
  }
  plan(course, {Run{winner}});
  return go_on(key, course, shape);
}

/// What the nearest size has chosen at this distance of the cores, for batches so large that the purse allows no trial.
std::optional<Variant> Tuner::neighbour(const GroupKey& key, const Contest& contest) const {
  const auto distance = static_cast<size_t>(groups_.at(key).distance);
  std::optional<Variant> nearest;
  int nearest_steps = 0;
  for (const auto& [other, group] : groups_) {
    TuneClass batches = other.second;
    const int steps = std::abs(int{batches.size} - int{key.second.size});
    batches.size = key.second.size;
    if (other.first != key.first || batches != key.second || (nearest && steps >= nearest_steps)) continue;
    const Course& course = group.courses[distance];
    if (!course.contest || !course.contest->winner()) continue;
    const Variant& variant = course.contest->variant(*course.contest->winner());
    if (!contest.find(variant) && !contest.find(unrefined(variant))) continue;
    nearest = variant;
    nearest_steps = steps;
  }
  return nearest;
}

void Tuner::timed(const TrialTime& time) {
  const auto found =
      std::find_if(trials_.begin(), trials_.end(), [&time](const Trial& each) { return each.number == time.trial; });
  if (found == trials_.end()) return;
  const Trial trial = *found;
  trials_.erase(found);
  held_ -= trial.held;
  if (time.took <= nanoseconds(0)) return;  // no batch takes no time
  const auto group = groups_.find(trial.key);
  if (group == groups_.end()) return;
  if (group->second.distance != time.distance) {
    give_up(group->second.course());
    group->second.distance = time.distance;
    note_run(group->second.course(), {});
  }
  take(trial, group->second.course(), time);
}

/// Without a contest the time is kept as the reference: the distance is new, or the first batches still warm up.
void Tuner::take(const Trial& trial, Course& course, const TrialTime& time) {
  if (trial.role != TrialRole::kTrial) return tell(trial, time);
  const double per_byte = static_cast<double>(time.took.count()) / static_cast<double>(trial.bytes);
  if (!course.contest || !trial.variant) {
    course.reference = std::min(course.reference, per_byte);
    return;
  }
  if (trial.pair != 0 && judge(trial, course, time, per_byte)) return;
  Contest& contest = *course.contest;
  const std::optional<size_t> index = contest.find(*trial.variant);
  if (!index) return;
  if (contest.winner()) {
    tell(trial, time);
    if (*index == *contest.winner()) watch(course, per_byte);
    return;
  }
  const double best = std::min(contest.best_time(), course.reference);
  // Another way than the leader would not have been faster, as far as is known: what its batch takes longer is chance.
  if (best != Contest::kNever && contest.leader() != index) {
    pay(std::max(0.0, per_byte - best) * static_cast<double>(trial.ran));
  }
  const bool decides = contest.took(*index, per_byte);
  if (decides) {
    course.decided = parts_.now();
    course.untimed = 0;
    give_up(course);
  }
  tell(trial, time);
  if (decides) tell_choice(trial.key, time.distance, trial.bytes, contest);
}

void Tuner::tell(const Trial& trial, const TrialTime& time) const {
  if (!parts_.report) return;
  parts_.report({parts_.now(), trial.key.first, at(trial.key.second, time.distance), *trial.variant, trial.bytes,
                 time.took, trial.role});
}

void Tuner::tell_choice(const GroupKey& key, Distance distance, uint64_t bytes, const Contest& contest) const {
  if (!parts_.report) return;
  const size_t winner = *contest.winner();
  const auto took = nanoseconds(static_cast<int64_t>(contest.time(winner) * static_cast<double>(bytes)));
  parts_.report(
      {parts_.now(), key.first, at(key.second, distance), contest.variant(winner), bytes, took, TrialRole::kChosen});
}

/// Other work on the machine makes some batches long; a change that matters makes all of them so.
void Tuner::watch(Course& course, double time) {
  const double ratio = time / course.contest->time(*course.contest->winner());
  course.odd = ratio > kOdd || ratio < 1 / kOdd ? course.odd + 1 : 0;
  const auto holds = kHolds * (1 << std::min(course.restarts, kMostDoublings));
  if (course.odd < kOddTrials || parts_.now() - course.decided < holds) return;
  course.contest = Contest(course.variants, course.fewest);
  course.refined = false;
  course.challenges.reset();
  course.tours = 0;
  give_up(course);
  course.reference = time;
  course.odd = 0;
  ++course.restarts;
}

/// Sets with classes alike share what is kept: the set of all ranks comes first.
std::vector<TunedChoice> Tuner::choices() const {
  std::map<TuneClass, TunedChoice> kept;
  for (const auto& [key, group] : groups_) {
    for (size_t distance = 0; distance < group.courses.size(); ++distance) {
      const std::optional<Contest>& contest = group.courses[distance].contest;
      if (!contest || contest->size() < 2 || !contest->winner()) continue;
      const size_t winner = *contest->winner();
      const TuneClass batches = at(key.second, static_cast<Distance>(distance));
      kept.try_emplace(batches, TunedChoice{batches, contest->variant(winner), contest->time(winner)});
    }
  }
  for (const auto& [batches, choice] : recalled_) kept.try_emplace(batches, choice);
  std::vector<TunedChoice> choices;
  for (const auto& [batches, choice] : kept) choices.push_back(choice);
  return choices;
}

}  // namespace rueda::core
