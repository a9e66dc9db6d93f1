// Which of several variants is the fastest, from times that other work on the machine disturbs.
//
//   next ─▶ of the variants that are in: the one that has run least often
//           (ties in random order: a program's batches may alternate)
//   took ─▶ one of its shortest times ─▶ drop_losers ─▶ decided if one is left,
//           or if all that are left have run kRounds times
//
// The random order has a fixed seed: equal times give equal contests.
#include "runtime/agreement/contest.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rueda::core {
namespace {

/// A variant that has run so often is judged by an eighth of its times. Before, other work may have disturbed the
/// second.
constexpr int kEnoughForEighth = 4;
/// A variant drops out if it takes more than so many times the best time: after its first run, its second, and so on.
constexpr double kMargins[] = {4.0, 1.5, 1.2, 1.12, 1.07, 1.05};

}  // namespace

Contest::Contest(const std::vector<Variant>& variants) {
  for (const Variant& variant : variants) entries_.push_back({variant});
  if (entries_.size() == 1) winner_ = 0;
}

Contest::Contest(const std::vector<Variant>& variants, const Variant& winner, double time) : Contest(variants) {
  const std::optional<size_t> index = find(winner);
  if (!index) return;
  winner_ = index;
  entries_[*index].times = {time};
}

Contest Contest::anew() const { return Contest(variants()); }

Contest Contest::decided_for(const Variant& winner, double time) const { return Contest(variants(), winner, time); }

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
    if (entry.out || entry.begun >= kRounds) continue;
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
  drop_losers();
  const auto open = [](const Entry& each) { return !each.out && each.heard < kRounds; };
  const auto in = [](const Entry& each) { return !each.out; };
  const bool finished = std::none_of(entries_.begin(), entries_.end(), open);
  if (finished || std::count_if(entries_.begin(), entries_.end(), in) == 1) decide();
  return winner_.has_value();
}

void Contest::drop_losers() {
  const double best = best_time();
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.heard == 0) continue;
    const size_t margin = std::min(static_cast<size_t>(entry.heard), std::size(kMargins)) - 1;
    if (time(i) > best * kMargins[margin]) entry.out = true;
  }
}

void Contest::decide() { winner_ = leader(); }

double Contest::time(size_t index) const {
  const Entry& entry = entries_[index];
  if (entry.times.empty()) return kNever;
  if (entry.heard < kEnoughForEighth || entry.times.size() == 1) return entry.times.front();
  // Between the two times that the eighth lies between.
  const double position = static_cast<double>(entry.times.size() - 1) / 8;
  const auto below = static_cast<size_t>(position);
  const double part = position - static_cast<double>(below);
  return entry.times[below] * (1 - part) + entry.times[below + 1] * part;
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
