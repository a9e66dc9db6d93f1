// Where the waiting ranks of a host should run, and when one of them moves.
//
//   yielded ─▶ publish ─▶ every 32nd time: look ─▶ uneven for a while, and this rank is the highest there ─▶
//   move_thread
#include "runtime/engine/rank_spread.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

constexpr uint32_t kYieldsPerLook = 32;

}  // namespace

RankSpread::RankSpread(size_t local_rank, std::vector<int> cores, std::vector<std::atomic<uint32_t>*> words)
    : rank_(local_rank), cores_(std::move(cores)), words_(std::move(words)), ranks_(cores_.size()) {}

void RankSpread::yielded() noexcept {
  const int core = ::sched_getcpu();
  publish(core);
  if (++yields_ % kYieldsPerLook != 0) return;
  const std::optional<int> target = look(core, SteadyClock::now());
  if (target && !move_thread(*target)) stay(core);
}

void RankSpread::publish(int core) noexcept {
  const uint32_t word = static_cast<uint32_t>(core + 1) | fixed_;
  std::atomic<uint32_t>& mine = *words_[rank_];
  if (mine.load(std::memory_order_relaxed) != word) mine.store(word, std::memory_order_relaxed);
}

void RankSpread::stay(int core) noexcept {
  fixed_ = kFixed;
  publish(core);
}

std::optional<int> RankSpread::look(int core, SteadyClock::time_point now) noexcept {
  if (now > std::exchange(looked_, now) + kGap) uneven_since_.reset();
  const std::optional<int> target = fixed_ == 0 ? emptier(core) : std::nullopt;
  if (!target) {
    uneven_since_.reset();
    return std::nullopt;
  }
  if (!uneven_since_) uneven_since_ = now;
  if (now < *uneven_since_ + kSteady || now < next_) return std::nullopt;
  rest_ = now < moved_ + 2 * rest_ ? std::min<std::chrono::nanoseconds>(2 * rest_, kLongestRest) : kRest;
  moved_ = now;
  next_ = now + rest_;
  uneven_since_.reset();
  publish(*target);
  return target;
}

/// The core with the fewest ranks, if this rank should go there.
std::optional<int> RankSpread::emptier(int core) {
  const size_t own = index_of(core);
  if (own == cores_.size()) return std::nullopt;
  std::fill(ranks_.begin(), ranks_.end(), 0);
  for (size_t rank = 0; rank < words_.size(); ++rank) {
    const uint32_t word =
        rank == rank_ ? static_cast<uint32_t>(core + 1) : words_[rank]->load(std::memory_order_relaxed);
    const size_t at = index_of(static_cast<int>(word & ~kFixed) - 1);
    if (at == cores_.size()) return std::nullopt;  // not known yet, or on a core of other ranks
    if (at == own && rank > rank_ && (word & kFixed) == 0) return std::nullopt;
    ++ranks_[at];
  }
  const auto fewest = std::min_element(ranks_.begin(), ranks_.end());
  if (ranks_[own] < *fewest + 2) return std::nullopt;
  return cores_[static_cast<size_t>(fewest - ranks_.begin())];
}

size_t RankSpread::index_of(int core) const {
  const auto found = std::lower_bound(cores_.begin(), cores_.end(), core);
  return found != cores_.end() && *found == core ? static_cast<size_t>(found - cores_.begin()) : cores_.size();
}

}  // namespace rueda::core
