// When a rank of a host with more ranks than cores moves to another core, as each rank computes it.
#include "runtime/engine/rank_spread.h"

#include <sched.h>

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;

using CoresOfRanks = std::vector<int>;

/// The ranks of a host, with the core of each, on a clock of their own.
class SpreadRanks {
 public:
  explicit SpreadRanks(CoresOfRanks at, const CoresOfRanks& cores = {0, 1}) : at_(std::move(at)), words_(at_.size()) {
    std::vector<std::atomic<uint32_t>*> words;
    for (auto& word : words_) words.push_back(&word);
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      ranks_.push_back(std::make_unique<RankSpread>(rank, cores, words));
    }
  }
  /// All wait for this long and look every half millisecond; those that are told to move do.
  const CoresOfRanks& wait(std::chrono::microseconds time) {
    for (const auto end = now_ + time; now_ < end; now_ += std::chrono::microseconds(500)) {
      for (size_t rank = 0; rank < at_.size(); ++rank) {
        ranks_[rank]->publish(at_[rank]);
        const std::optional<int> target = ranks_[rank]->look(at_[rank], now_);
        if (!target) continue;
        ++moves_;
        at_[rank] = *target;
        ranks_[rank]->publish(*target);
      }
    }
    return at_;
  }
  void put(size_t rank, int core) { at_[rank] = core; }
  void publish(size_t rank, uint32_t word) { words_[rank] = word; }
  std::optional<int> look(size_t rank) {
    now_ += milliseconds(2);
    return ranks_[rank]->look(at_[rank], now_);
  }
  int moves() const { return moves_; }

 private:
  CoresOfRanks at_;
  std::vector<std::atomic<uint32_t>> words_;
  std::vector<std::unique_ptr<RankSpread>> ranks_;
  SteadyClock::time_point now_ = SteadyClock::time_point(std::chrono::hours(1));
  int moves_ = 0;
};

}  // namespace

TEST_CASE("the highest rank of a core with two ranks more than another one moves there, and no other rank") {
  SpreadRanks four({0, 0, 1, 0});
  CHECK(four.wait(milliseconds(5)) == CoresOfRanks{0, 0, 1, 1});
  CHECK(four.moves() == 1);
  SpreadRanks all_on_one({1, 1, 1, 1});
  CHECK(all_on_one.wait(milliseconds(50)) == CoresOfRanks{1, 1, 0, 0});
  SpreadRanks eight({0, 1, 0, 0, 0, 1, 1, 0});
  CHECK(eight.wait(milliseconds(50)) == CoresOfRanks{0, 1, 0, 0, 0, 1, 1, 1});
  SpreadRanks on_other_numbers({7, 7, 9, 7}, {7, 9});
  CHECK(on_other_numbers.wait(milliseconds(5)) == CoresOfRanks{7, 7, 9, 9});
}

TEST_CASE("ranks that are spread as evenly as they come stay") {
  for (const CoresOfRanks& at :
       {CoresOfRanks{0, 1, 1, 0}, CoresOfRanks{0, 1, 1}, CoresOfRanks{0, 0, 1}, CoresOfRanks{1, 1, 0, 0, 0}}) {
    SpreadRanks ranks(at);
    CHECK(ranks.wait(milliseconds(100)) == at);
  }
}

TEST_CASE("a rank moves only if the ranks have been uneven for a while") {
  SpreadRanks ranks({0, 0, 1, 1});
  for (int i = 0; i < 50; ++i) {
    ranks.put(3, i % 2);
    ranks.wait(std::chrono::microseconds(500));
  }
  CHECK(ranks.moves() == 0);
}

TEST_CASE("a rank that the kernel takes back at once moves ever more rarely, and readily again after a calm time") {
  SpreadRanks ranks({0, 0, 1, 0});
  for (int i = 0; i < 10000; ++i) {
    ranks.put(3, 0);
    ranks.wait(milliseconds(2));
  }
  // After 10, 20, 40, ... 640 ms and then each second, in twenty of them.
  CHECK(ranks.moves() > 15);
  CHECK(ranks.moves() < 35);
  ranks.wait(milliseconds(10000));
  const int before = ranks.moves();
  for (int i = 0; i < 10; ++i) {
    ranks.put(3, 0);
    ranks.wait(milliseconds(100));
  }
  CHECK(ranks.moves() == before + 10);
}

TEST_CASE("nobody moves while a rank has not said where it is, says nonsense, or runs on a core of others") {
  for (const uint32_t word : {0u, 9u, UINT32_MAX}) {
    SpreadRanks ranks({0, 0, 1, 0});
    ranks.publish(0, 1);
    ranks.publish(1, 1);
    ranks.publish(2, word);
    for (int i = 0; i < 10; ++i) CHECK_FALSE(ranks.look(3));
    ranks.publish(2, 2);
    CHECK_FALSE(ranks.look(3));
    CHECK(ranks.look(3) == 1);
  }
  SpreadRanks elsewhere({5, 5, 1, 5});
  CHECK(elsewhere.wait(milliseconds(20)) == CoresOfRanks{5, 5, 1, 5});
}

TEST_CASE("a thread that yields publishes its core, and its cores stay its own") {
  const CoresOfRanks before = allowed_cores();
  std::atomic<uint32_t> mine{0}, other{0};
  RankSpread spread(0, before, {&mine, &other});
  for (int i = 0; i < 1000; ++i) spread.yielded();
  CHECK(mine.load() != 0);
  CHECK(allowed_cores() == before);
}

}  // namespace rueda::core
