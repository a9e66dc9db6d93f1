// When lanes change places with their callers, as each rank of a host computes it.
#include "runtime/engine/lane_cores.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

namespace rueda::core {
namespace {

/// The ranks of a host with as many cores. Rank r's share is core r.
class Callers {
 public:
  explicit Callers(size_t ranks) : published_(ranks) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::vector<int> allowed;
      std::vector<std::atomic<uint32_t>*> words = {&published_[rank]};
      for (size_t other = 0; other < ranks; ++other) {
        allowed.push_back(static_cast<int>(other));
        if (other != rank) words.push_back(&published_[other]);
      }
      ranks_.push_back(std::make_unique<LaneCores>(static_cast<int>(rank), allowed, words));
    }
  }
  void sleep(size_t rank, int core, uint32_t times = LaneCores::kSame) {
    for (uint32_t i = 0; i < times; ++i) ranks_[rank]->caller_sleeps(core);
  }
  std::vector<int> lanes() const {
    std::vector<int> cores;
    for (const auto& rank : ranks_) cores.push_back(rank->core());
    return cores;
  }

 private:
  std::vector<std::atomic<uint32_t>> published_;
  std::vector<std::unique_ptr<LaneCores>> ranks_;
};

using Cores = std::vector<int>;

TEST_CASE("lanes follow their callers once all of them are on different cores") {
  Callers callers(3);
  CHECK(callers.lanes() == Cores{0, 1, 2});
  callers.sleep(0, 2);
  callers.sleep(1, 0);
  CHECK(callers.lanes() == Cores{0, 1, 2});  // where the third is, nobody knows
  callers.sleep(2, 1);
  CHECK(callers.lanes() == Cores{2, 0, 1});
  callers.sleep(0, 0);
  callers.sleep(1, 2);
  CHECK(callers.lanes() == Cores{0, 2, 1});
}

TEST_CASE("lanes stay at home while two callers share a core") {
  Callers callers(2);
  callers.sleep(0, 1);
  callers.sleep(1, 1);
  CHECK(callers.lanes() == Cores{0, 1});
  callers.sleep(1, 0);
  CHECK(callers.lanes() == Cores{1, 0});
  callers.sleep(1, 1);
  CHECK(callers.lanes() == Cores{0, 1});
}

TEST_CASE("a caller that is moved for a moment moves no lane") {
  Callers callers(2);
  callers.sleep(0, 1);
  callers.sleep(1, 0);
  callers.sleep(0, 0, LaneCores::kSame - 1);
  callers.sleep(0, 1, 1);
  callers.sleep(0, 0, LaneCores::kSame - 1);
  CHECK(callers.lanes() == Cores{1, 0});
  callers.sleep(0, 0, 1);
  CHECK(callers.lanes() == Cores{0, 1});
}

}  // namespace
}  // namespace rueda::core
