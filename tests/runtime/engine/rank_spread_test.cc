// When a rank of a host with more ranks than cores moves to another core, as each rank computes it.
#include "runtime/engine/rank_spread.h"

#include <sched.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "runtime/engine/core_claim.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;

using CoresOfRanks = std::vector<int>;

/// The ranks of a host, with the core of each, on a clock of their own. A move takes until the next time that all look.
class SpreadRanks {
 public:
  explicit SpreadRanks(CoresOfRanks at, const CoresOfRanks& cores = {0, 1}) : at_(std::move(at)), words_(at_.size()) {
    std::vector<std::atomic<uint32_t>*> words;
    for (auto& word : words_) words.push_back(&word);
    for (size_t rank = 0; rank < at_.size(); ++rank) {
      ranks_.push_back(std::make_unique<RankSpread>(rank, cores, words));
    }
  }
  /// All wait for this long and look every half millisecond; those that are told to move do, unless they are confined.
  const CoresOfRanks& wait(std::chrono::microseconds time) {
    for (const auto end = now_ + time; now_ < end; now_ += std::chrono::microseconds(500)) {
      CoresOfRanks after = at_;
      for (size_t rank = 0; rank < at_.size(); ++rank) {
        ranks_[rank]->publish(at_[rank]);
        const std::optional<int> target = ranks_[rank]->look(at_[rank], now_);
        if (!target) continue;
        ++moves_;
        if (confined_.contains(rank)) {
          ranks_[rank]->stay(at_[rank]);
        } else {
          after[rank] = *target;
        }
      }
      at_ = std::move(after);
    }
    return at_;
  }
  void put(size_t rank, int core) { at_[rank] = core; }
  void confine(size_t rank) { confined_.insert(rank); }
  void pass(milliseconds time) { now_ += time; }
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
  std::set<size_t> confined_;
  int moves_ = 0;
};

int most_on_one(const CoresOfRanks& at) {
  std::map<int, int> ranks;
  int most = 0;
  for (const int core : at) most = std::max(most, ++ranks[core]);
  return most;
}

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

TEST_CASE("ranks of many cores do not all go to the one that is empty") {
  for (const int cores : {3, 8, 64}) {
    CoresOfRanks all(static_cast<size_t>(cores)), at;
    std::iota(all.begin(), all.end(), 0);
    for (int core = 1; core < cores; ++core) at.insert(at.end(), {core, core});
    SpreadRanks ranks(at, all);
    for (int i = 0; i < 20; ++i) CHECK(most_on_one(ranks.wait(milliseconds(1))) == 2);
    CHECK(ranks.moves() == 1);
  }
}

TEST_CASE("a rank that the program has confined stays, and the next lower one moves") {
  SpreadRanks ranks({0, 0, 1, 0});
  ranks.confine(3);
  CHECK(ranks.wait(milliseconds(20)) == CoresOfRanks{0, 1, 1, 0});
  CHECK(ranks.moves() == 2);
}

TEST_CASE("a rank that has not looked for a while does not move by what it saw before") {
  SpreadRanks ranks({0, 0, 1, 0});
  for (int i = 0; i < 20; ++i) {
    ranks.wait(std::chrono::microseconds(500));
    ranks.pass(milliseconds(5));
  }
  CHECK(ranks.moves() == 0);
  ranks.wait(milliseconds(5));
  CHECK(ranks.moves() == 1);
}

TEST_CASE("a thread that waits on the fullest core leaves it, and its cores stay its own") {
  const CoresOfRanks before = allowed_cores();
  std::atomic<uint32_t> first{0}, second{0}, mine{0};
  RankSpread spread(2, before, {&first, &second, &mine});
  bool left = false;
  // A look comes after a millisecond and more, which so many yields take on any machine.
  for (int i = 0; i < 1'000'000 && !left && before.size() > 1; ++i) {
    const auto here = static_cast<uint32_t>(::sched_getcpu()) + 1;
    first = second = here;
    spread.yielded();
    left = mine.load() != here && mine.load() == static_cast<uint32_t>(::sched_getcpu()) + 1;
  }
  spread.yielded();
  CHECK(mine.load() != 0);
  CHECK((left || before.size() == 1));
  CHECK(allowed_cores() == before);
}

}  // namespace rueda::core
