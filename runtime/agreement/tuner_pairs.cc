// The tuner's pairs: now and then the choice runs next to another variant, a challenger. In a check, it always does.
//
//   decided, and a pair is due ─▶ begin_pair ─▶ the tuner runs both batches, each once its variant is warm
//   timed ─▶ judge ─▶ the challenger has won: it is the choice, and its refinements are tried
//
// A contest decides by few times of each variant, so other work on the machine may have decided it. Its choice can be
// behind by less than `watch` takes for a change, for as long as the job runs.
#include <algorithm>
#include <utility>

#include "runtime/agreement/tuner.h"

namespace rueda::core {

/// The variants of the first contest, and of the second one those that are not the same.
std::vector<Variant> Tuner::ways_beside(const Course& course) const {
  std::vector<Variant> ways = course.variants;
  for (size_t i = 0; course.refined && i < course.contest->size(); ++i) {
    const Variant& variant = course.contest->variant(i);
    if (std::find(ways.begin(), ways.end(), variant) == ways.end()) ways.push_back(variant);
  }
  return ways;
}

Tuner::Pick Tuner::begin_pair(const GroupKey& key, Course& course, const BatchShape& shape) {
  Challenges& challenges = *course.challenges;
  const size_t winner = *course.contest->winner();
  Run choice{course.contest->variant(winner), shape.bytes};
  choice.pair = ++last_pair_;
  Run challenger = choice;
  challenger.variant = challenges.challenger();
  challenger.challenges = true;
  challenger.batches = 1 + warm_ups(course, challenger.variant, shape);
  set_price(challenger, course.contest->time(winner), shape);
  challenges.begin(choice.pair, parts_.now());
  plan(course, challenges.challenger_first() ? std::deque{challenger, choice} : std::deque{choice, challenger});
  return go_on(key, course, shape);
}

/// In pairs, so that both of a pair meet the machine in the same state. The choice also runs beside itself: that pair
/// shows what chance does.
Tuner::Pick Tuner::begin_check(const GroupKey& key, Course& course, const BatchShape& shape, const Variant& own) {
  const std::vector<Variant> ways = ways_beside(course);
  Run choice{own, shape.bytes}, other{ways[course.checked++ % ways.size()], shape.bytes};
  choice.role = TrialRole::kOwn;
  other.role = TrialRole::kOther;
  plan(course, {choice, other});
  return go_on(key, course, shape);
}

/// Takes a time of a pair. Returns whether that is all there is to do with it.
bool Tuner::judge(const Trial& trial, Course& course, const TrialTime& time, double per_byte) {
  if (!course.challenges || !course.contest->winner()) return trial.challenges;
  if (trial.challenges) tell(trial, time);
  const double choice = course.contest->time(*course.contest->winner());
  if (trial.challenges) pay(std::max(0.0, per_byte - choice) * static_cast<double>(trial.ran));
  const std::optional<Variant> won = trial.challenges ? course.challenges->took_challenger(trial.pair, per_byte)
                                                      : course.challenges->took_choice(trial.pair, per_byte);
  if (!won) return trial.challenges;
  course.refined = course.refined && course.contest->find(*won).has_value();
  course.contest = course.refined ? course.contest->decided_for(*won, per_byte)
                                  : Contest(course.variants, *won, per_byte, course.fewest);
  course.tours = course.challenges->tours() + 1;
  course.challenges.reset();
  give_up(course);
  course.decided = parts_.now();
  course.odd = 0;
  tell_choice(trial.key, time.distance, trial.bytes, *course.contest);
  return true;
}

}  // namespace rueda::core
