// Which way, if any, is better than the one that was chosen.
//
//   due ─▶ begin ─▶ the choice's batch and the challenger's, in the one order or the other
//                   └─▶ both times are there ─▶ judge ─▶ it has won, or may still win, or the next way's turn comes
#include "runtime/agreement/challenges.h"

#include <algorithm>

namespace rueda::core {

void Challenges::begin(uint64_t number, SteadyClock::time_point now) {
  next_ = now + kRest * (1 << std::min(tours_, kMostDoublings));
  choice_.reset();
  challenger_.reset();
  last_pair_ = number;
}

std::optional<Variant> Challenges::took_choice(uint64_t pair, double time) {
  if (pair != last_pair_) return std::nullopt;
  choice_ = time;
  return judge();
}

std::optional<Variant> Challenges::took_challenger(uint64_t pair, double time) {
  if (pair != last_pair_) return std::nullopt;
  challenger_ = time;
  return judge();
}

std::optional<Variant> Challenges::judge() {
  if (!choice_ || !challenger_) return std::nullopt;
  ++pairs_;
  if (*challenger_ < kBetter * *choice_) ++wins_;
  choice_.reset();
  challenger_.reset();
  if (wins_ == kWins) return ways_[turn_];
  if (pairs_ - wins_ <= kPairs - kWins) return std::nullopt;
  pairs_ = wins_ = 0;
  if (++turn_ == ways_.size()) {
    turn_ = 0;
    ++tours_;
  }
  return std::nullopt;
}

}  // namespace rueda::core
