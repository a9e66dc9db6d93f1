// The tuner's pairs: now and then the choice runs next to another variant, a challenger.
//
//   decided, and a pair is due ─▶ begin_pair ─▶ the next batch of this size: end_pair
//   timed ─▶ judge ─▶ the challenger has won: it is the choice, and its refinements are tried
//
// A contest decides by few times of each variant, so other work on the machine may have decided it. Its choice can be
// behind by less than `watch` takes for a change, for as long as the job runs.
#include <algorithm>
#include <utility>

#include "runtime/agreement/tuner.h"

namespace rueda::core {
namespace {

/// So many batches of other sizes may come between the two of a pair.
constexpr int kMostPassed = 8;

}  // namespace

/// The variants of the first contest, and of the second one those that are not the same.
std::vector<Variant> Tuner::ways_beside(const Course& course) const {
  std::vector<Variant> ways = course.variants;
  for (size_t i = 0; course.refined && i < course.contest->size(); ++i) {
    const Variant& variant = course.contest->variant(i);
    if (std::find(ways.begin(), ways.end(), variant) == ways.end()) ways.push_back(variant);
  }
  return ways;
}

Tuner::Pick Tuner::begin_pair(const GroupKey& key, Course& course, const BatchShape& shape, double cost) {
  Challenges& challenges = *course.challenges;
  const Half choice{last_trial_ + 1, course.contest->variant(*course.contest->winner()), false, shape.bytes, 0};
  const Half challenger{last_trial_ + 1, challenges.challenger(), true, shape.bytes, cost};
  const bool challenger_first = challenges.challenger_first();
  challenges.begin(choice.pair, parts_.now());
  course.half = challenger_first ? choice : challenger;
  return start_half(key, shape, challenger_first ? challenger : choice);
}

/// Without a trial if the batch has not the size of the pair's first.
Tuner::Pick Tuner::end_pair(const GroupKey& key, Course& course, const BatchShape& shape) {
  Half& half = *course.half;
  if (half.bytes == shape.bytes) return start_half(key, shape, *std::exchange(course.half, std::nullopt));
  if (++half.passed > kMostPassed) course.half.reset();
  return {};
}

Tuner::Pick Tuner::start_half(const GroupKey& key, const BatchShape& shape, const Half& half) {
  const Pick pick = start(key, half.variant, shape, half.cost);
  trials_.back().pair = half.pair;
  trials_.back().challenges = half.challenges;
  return pick;
}

/// Takes a time of a pair. Returns whether that is all there is to do with it.
bool Tuner::judge(const Trial& trial, Course& course, const TrialTime& time, double per_byte) {
  if (!course.challenges || !course.contest->winner()) return trial.challenges;
  if (trial.challenges) tell(trial, time);
  const double choice = course.contest->time(*course.contest->winner());
  if (trial.challenges) pay(std::max(0.0, per_byte - choice) * static_cast<double>(trial.bytes));
  const std::optional<Variant> won = trial.challenges ? course.challenges->took_challenger(trial.pair, per_byte)
                                                      : course.challenges->took_choice(trial.pair, per_byte);
  if (!won) return trial.challenges;
  course.refined = course.refined && course.contest->find(*won).has_value();
  course.contest =
      course.refined ? course.contest->decided_for(*won, per_byte) : Contest(course.variants, *won, per_byte);
  course.tours = course.challenges->tours() + 1;
  course.challenges.reset();
  course.half.reset();
  course.decided = parts_.now();
  course.odd = 0;
  tell_choice(trial.key, time.distance, trial.bytes, *course.contest);
  return true;
}

}  // namespace rueda::core
