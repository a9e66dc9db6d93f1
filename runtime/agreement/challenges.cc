// Which variant, if any, is better than the one that was chosen.
//
//   due ─▶ begin ─▶ the choice's batch and the challenger's, in the one order or the other
//                   └─▶ both times are there ─▶ judge: a step ahead or back
//                                               └─▶ it has won, or goes on, or the next variant's turn comes
#include "runtime/agreement/challenges.h"

#include <algorithm>

namespace rueda::core {

void Challenges::begin(uint64_t number, SteadyClock::time_point now) {
  next_ = now + kRest * (1 << std::min(tours_, kMostDoublings));
  choice_.reset();
  challenger_.reset();
  last_pair_ = number;
}

void Challenges::gave_up(SteadyClock::time_point now) {
  given_up_ = std::min(given_up_ + 1, kMostGivenUp);
  next_ = now + kRest * (1 << std::max(given_up_, std::min(tours_, kMostDoublings)));
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
  given_up_ = 0;
  lead_ += *challenger_ < kBetter * *choice_ ? 1 : -1;
  choice_.reset();
  challenger_.reset();
  if (lead_ == kAhead) return variants_[turn_];
  if (lead_ > -kBehind) return std::nullopt;
  pairs_ = lead_ = 0;
  if (++turn_ == variants_.size()) {
    turn_ = 0;
    ++tours_;
  }
  return std::nullopt;
}

}  // namespace rueda::core
