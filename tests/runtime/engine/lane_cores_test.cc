// When lanes change places with their callers, as each rank of a host computes it.
#include "runtime/engine/lane_cores.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <memory>
#include <random>
#include <vector>

namespace rueda::core {
namespace {

using Cores = std::vector<int>;

/// The ranks of a host with as many cores. Each has a core as its home.
class Callers {
 public:
  explicit Callers(const Cores& homes) : published_(homes.size()) {
    std::vector<std::atomic<uint32_t>*> words;
    for (auto& word : published_) words.push_back(&word);
    for (size_t rank = 0; rank < homes.size(); ++rank) {
      ranks_.push_back(std::make_unique<LaneCores>(rank, homes, words));
    }
  }
  void sleep(size_t rank, int core, uint32_t times = LaneCores::kSame) {
    for (uint32_t i = 0; i < times; ++i) ranks_[rank]->caller_slept(core);
  }
  void publish(size_t rank, uint32_t word) { published_[rank] = word; }
  Cores lanes() const {
    Cores cores;
    for (const auto& rank : ranks_) cores.push_back(rank->core());
    return cores;
  }

 private:
  std::vector<std::atomic<uint32_t>> published_;
  std::vector<std::unique_ptr<LaneCores>> ranks_;
};

TEST_CASE("lanes follow callers that sit on each other's homes") {
  Callers callers({2, 3, 5, 7});
  CHECK(callers.lanes() == Cores{2, 3, 5, 7});
  callers.sleep(0, 5);
  callers.sleep(1, 2);
  CHECK(callers.lanes() == Cores{2, 3, 5, 7});  // the third has published nothing
  callers.sleep(2, 3);
  CHECK(callers.lanes() == Cores{5, 2, 3, 7});
  callers.sleep(3, 3);  // beside the third's caller, so this one follows nobody
  CHECK(callers.lanes() == Cores{5, 2, 3, 7});
  callers.sleep(0, 2);
  callers.sleep(1, 5);
  CHECK(callers.lanes() == Cores{2, 5, 3, 7});
}

TEST_CASE("lanes stay at home while two callers share a core") {
  Callers callers({0, 1});
  callers.sleep(0, 1);
  callers.sleep(1, 1);
  CHECK(callers.lanes() == Cores{0, 1});
  callers.sleep(1, 0);
  CHECK(callers.lanes() == Cores{1, 0});
  callers.sleep(1, 1);
  CHECK(callers.lanes() == Cores{0, 1});
}

TEST_CASE("a caller that is moved for a moment moves no lane") {
  Callers callers({0, 1});
  callers.sleep(0, 1);
  callers.sleep(1, 0);
  callers.sleep(0, 0, LaneCores::kSame - 1);
  callers.sleep(0, 1, 1);
  callers.sleep(0, 0, LaneCores::kSame - 1);
  CHECK(callers.lanes() == Cores{1, 0});
  callers.sleep(0, 0, 1);
  CHECK(callers.lanes() == Cores{0, 1});
}

TEST_CASE("whatever ranks publish, no two of them have one core") {
  Callers callers({0, 1, 2, 9});
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const uint32_t words[] = {0, 1, 2, 3, 4, 10, 11, 0x80000000, 0xffffffff};
    for (size_t rank = 0; rank < 4; ++rank) callers.publish(rank, words[random() % std::size(words)]);
    Cores lanes = callers.lanes();
    std::sort(lanes.begin(), lanes.end());
    CHECK(lanes == Cores{0, 1, 2, 9});
  }
}

}  // namespace
}  // namespace rueda::core
