#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "tests/support/collective_case.h"
#include "tests/support/lane_ranks.h"

using namespace rueda::core;

namespace {

constexpr uint64_t kKey = 5;

/// One batch of some ranks of one host, all on the test's thread.
class OneBatch {
 public:
  OneBatch(LaneRanks& lanes, uint64_t stamp, int64_t elements) : OneBatch(lanes, stamp, elements, everyone(lanes)) {}
  OneBatch(LaneRanks& lanes, uint64_t stamp, int64_t elements, const std::vector<int>& members, uint64_t key = kKey)
      : lanes_(lanes),
        teams_(static_cast<size_t>(lanes.size())),
        calls_(teams_.size()),
        states_(teams_.size()),
        tensors_(teams_.size()) {
    test_.counts = {elements};
    test_ = test_.salted(stamp);
    for (const int rank : members) {
      Team& team = teams_[static_cast<size_t>(rank)];
      team = team_of(members, rank);
      auto& tensors = tensors_[static_cast<size_t>(rank)];
      tensors = std::make_unique<CaseTensors>(test_, team, nullptr);
      call(rank) = tensors->call(algorithm_.plan(test_.shape(team.size())), stamp);
      call(rank).key = key;
    }
  }
  Call& call(int rank) { return calls_[static_cast<size_t>(rank)]; }
  void show(int rank) { algorithm_.show_early(call(rank), lanes_.mesh(rank)); }
  bool step(int rank) {
    const Result<StepResult> result =
        algorithm_.step(call(rank), lanes_.mesh(rank), states_[static_cast<size_t>(rank)]);
    REQUIRE(result.ok());
    if (result.value() != StepResult::kDone) return false;
    CHECK(tensors_[static_cast<size_t>(rank)]->check().sentence() == "");
    return true;
  }

 private:
  static std::vector<int> everyone(const LaneRanks& lanes) {
    std::vector<int> all(static_cast<size_t>(lanes.size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  LaneRanks& lanes_;
  const Algorithm& algorithm_ = algorithm_named("shm_one_shot");
  CollectiveCase test_;
  std::vector<Team> teams_;
  std::vector<Call> calls_;
  std::vector<StepState> states_;
  std::vector<std::unique_ptr<CaseTensors>> tensors_;
};

uint64_t shown_stamp(LaneRanks& lanes, int rank, uint64_t stamp) {
  return lanes.mesh(rank).words(rank).early[stamp & 1].stamp.load();
}

}  // namespace

TEST_CASE("A batch that all ranks have shown their inputs to is done in the first step of each") {
  LaneRanks lanes(3);
  OneBatch batch(lanes, 30, 12);
  for (int rank = 0; rank < 3; ++rank) batch.show(rank);
  for (int rank = 0; rank < 3; ++rank) CHECK(batch.step(rank));
}

TEST_CASE("A rank that has shown nothing, or another tensor, posts its input when it has the batch") {
  LaneRanks lanes(3);
  OneBatch batch(lanes, 30, 12);
  batch.show(0);
  batch.call(1).key = kKey + 1;
  batch.show(1);
  batch.call(1).key = kKey;
  CHECK_FALSE(batch.step(0));
  CHECK_FALSE(batch.step(1));
  CHECK(batch.step(2));
  CHECK(batch.step(0));
  CHECK(batch.step(1));
}

TEST_CASE("What is longer than the line is not shown") {
  LaneRanks lanes(2);
  OneBatch batch(lanes, 30, 13);
  batch.show(0);
  CHECK(shown_stamp(lanes, 0, 30) == 0);
  CHECK_FALSE(batch.step(0));
  CHECK(batch.step(1));
  CHECK(batch.step(0));
}

TEST_CASE("A batch of several tensors takes nothing that was shown") {
  LaneRanks lanes(2);
  OneBatch batch(lanes, 30, 12);
  for (int rank = 0; rank < 2; ++rank) {
    batch.show(rank);
    batch.call(rank).key = 0;
  }
  CHECK_FALSE(batch.step(0));
  CHECK(batch.step(1));
  CHECK(batch.step(0));
}

TEST_CASE("A line shows nothing new while a peer may still read it") {
  LaneRanks lanes(2);
  OneBatch first(lanes, 30, 12);
  OneBatch second(lanes, 32, 12);
  for (int rank = 0; rank < 2; ++rank) first.show(rank);
  CHECK(first.step(0));
  second.show(0);
  CHECK(shown_stamp(lanes, 0, 32) == 31);
  CHECK(first.step(1));
  second.show(0);
  CHECK(shown_stamp(lanes, 0, 32) == 33);
}

TEST_CASE("After a wrong guess a line waits for those who have the batch, not for those who were meant") {
  LaneRanks lanes(3);
  OneBatch(lanes, 30, 12, {0, 1}).show(0);
  // The stamp is another set's.
  OneBatch first(lanes, 30, 12, {0, 2}, kKey + 1);
  CHECK_FALSE(first.step(2));
  CHECK(first.step(0));
  OneBatch meant(lanes, 33, 12, {0, 1});
  CHECK_FALSE(meant.step(0));
  CHECK(meant.step(1));
  CHECK(meant.step(0));
  // Rank 2 may be between its looks at the stamp and at the key.
  OneBatch next(lanes, 36, 12, {0, 2}, kKey + 1);
  next.show(0);
  CHECK(shown_stamp(lanes, 0, 36) == 31);
  CHECK(first.step(2));
  next.show(0);
  CHECK(shown_stamp(lanes, 0, 36) == 37);
}
