// Which of several variants is the fastest, from times that other work on the machine disturbs.
//
//   next ─▶ of the variants that are in: the one that has run least often
//           (ties in random order: a program's batches may alternate)
//   took ─▶ how far apart times lie ─▶ each variant's time ─▶ drop_losers ─▶ decided if one is left,
//           or if all that are left have run as often as they need
//
// The random order has a fixed seed: equal times give equal contests.
#include "runtime/agreement/contest.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

namespace rueda::core {
namespace {

/// A variant that has run so often is judged by more than its shortest time. Before, other work may have disturbed the
/// second.
constexpr int kEnoughTimes = 4;
/// Times lie far apart if their mean is so many times the time that an eighth of them stay below: on average of the
/// variants, or of the one whose eighth is the best.
constexpr double kFarApart = 1.1;
/// A variant drops out if it takes more than so many times the best time: after its first run, its second, and so on.
/// It is not known how far apart times lie before all have run four times.
constexpr double kMargins[] = {4.0, 2.0, 1.6, 1.12, 1.07, 1.05};
/// If times lie far apart, the margin after n runs is at least 1 + kSpread / sqrt(n). Two means of n times, with a
/// standard deviation of half the mean, differ by more in a few cases of a hundred only.
constexpr double kSpread = 1.2;

/// Of times in ascending order: between the two that the eighth lies between.
double eighth_of(const std::vector<double>& times) {
  const double position = static_cast<double>(times.size() - 1) / 8;
  const auto below = static_cast<size_t>(position);
  const double part = position - static_cast<double>(below);
  return part == 0 ? times[below] : times[below] * (1 - part) + times[below + 1] * part;
}

/// The mean of all but the longest eighth. `times` are ascending, two or more.
double mean_of(const std::vector<double>& times) {
  const size_t counted = times.size() - (times.size() + 7) / 8;
  return std::accumulate(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(counted), 0.0) /
         static_cast<double>(counted);
}

/// The margin of a variant after this many runs. `least`: how many each variant has that is still in.
double margin_after(int runs, int least, bool far_apart) {
  const int counted = least < kEnoughTimes ? std::min(runs, kEnoughTimes - 1) : runs;
  const double margin = kMargins[std::min(static_cast<size_t>(counted), std::size(kMargins)) - 1];
  return far_apart && counted > 1 ? std::max(margin, 1 + kSpread / std::sqrt(counted)) : margin;
}

}  // namespace

Contest::Contest(const std::vector<Variant>& variants, int fewest) : fewest_(fewest) {
  for (const Variant& variant : variants) entries_.push_back({variant});
  if (entries_.size() == 1) winner_ = 0;
}

Contest::Contest(const std::vector<Variant>& variants, const Variant& winner, double time, int fewest)
    : Contest(variants, fewest) {
  const std::optional<size_t> index = find(winner);
  if (!index) return;
  winner_ = index;
  entries_[*index].times = {time};
}

Contest Contest::anew() const { return Contest(variants(), fewest_); }

Contest Contest::decided_for(const Variant& winner, double time) const {
  return Contest(variants(), winner, time, fewest_);
}

std::vector<Variant> Contest::variants() const {
  std::vector<Variant> all;
  for (const Entry& entry : entries_) all.push_back(entry.variant);
  return all;
}

std::optional<size_t> Contest::next() {
  if (winner_) return std::nullopt;
  std::optional<size_t> chosen;
  uint64_t alike = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.out || entry.begun >= rounds()) continue;
    if (!chosen || entry.begun < entries_[*chosen].begun) {
      chosen = i;
      alike = 1;
    } else if (entry.begun == entries_[*chosen].begun && random() % ++alike == 0) {
      chosen = i;
    }
  }
  return chosen;
}

bool Contest::took(size_t index, double time) {
  Entry& entry = entries_[index];
  ++entry.heard;
  if (wants_times(index)) entry.times.insert(std::upper_bound(entry.times.begin(), entry.times.end(), time), time);
  if (winner_) return false;
  judge_spread();
  drop_losers();
  const auto open = [this](const Entry& each) { return !each.out && each.heard < rounds(); };
  const auto in = [](const Entry& each) { return !each.out; };
  const bool finished = std::none_of(entries_.begin(), entries_.end(), open);
  if (finished || std::count_if(entries_.begin(), entries_.end(), in) == 1) decide();
  return winner_.has_value();
}

void Contest::judge_spread() {
  double together = 0, best_eighth = kNever, of_best = 1;
  int judged = 0;
  for (const Entry& entry : entries_) {
    if (entry.out || entry.heard < kEnoughTimes) continue;
    const double eighth = eighth_of(entry.times), spread = mean_of(entry.times) / eighth;
    together += spread;
    ++judged;
    if (eighth < best_eighth) {
      best_eighth = eighth;
      of_best = spread;
    }
  }
  far_apart_ = judged > 0 && (of_best > kFarApart || together / judged > kFarApart);
}

/// The leader stays, so one is always left.
void Contest::drop_losers() {
  const double best = best_time();
  int least = rounds();
  for (const Entry& entry : entries_) least = entry.out ? least : std::min(least, entry.heard);
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.heard >= std::max(1, fewest_) && time(i) > best * margin_after(entry.heard, least, far_apart_))
      entry.out = true;
  }
}

void Contest::decide() { winner_ = leader(); }

double Contest::time(size_t index) const {
  const Entry& entry = entries_[index];
  if (entry.times.empty()) return kNever;
  if (entry.times.size() == 1) return entry.times.front();
  if (far_apart_) return mean_of(entry.times);
  return entry.heard < kEnoughTimes ? entry.times.front() : eighth_of(entry.times);
}

double Contest::best_time() const {
  const std::optional<size_t> best = leader();
  return best ? time(*best) : kNever;
}

std::optional<size_t> Contest::leader() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].out && !entries_[i].times.empty() && (!best || time(i) < time(*best))) best = i;
  }
  return best;
}

std::optional<size_t> Contest::find(const Variant& variant) const {
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].variant == variant) return i;
  }
  return std::nullopt;
}

/// Xorshift (Marsaglia 2003).
uint64_t Contest::random() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_;
}

}  // namespace rueda::core
