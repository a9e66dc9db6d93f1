#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string_view>

#include "ops/chunks.h"
#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

/// One batch of the total order: which set, which algorithm, what.
struct Turn {
  std::vector<int> members;
  const Algorithm* algorithm;
  CollectiveCase test;
  uint32_t chunk_bytes;
};

/// Overlapping sets, so that a rank always has readers of its slots which are not in the batch at hand.
const std::vector<std::vector<int>> kSets = {{0, 1, 2, 3}, {0, 1}, {1, 2}, {0, 2, 3}, {2, 3}, {0, 3}};

/// A fixed mixture of tiny and large one-shots, pipelined two-shots, broadcasts and barriers over all sets, in all
/// slots of the lane or in fewer.
std::vector<Turn> mixture(int64_t turns) {
  const Algorithm* const one_shot = &algorithm_named("shm_one_shot");
  const Algorithm* const two_shot = &algorithm_named("shm_two_shot");
  const Algorithm* const broadcast = &algorithm_named("shm_broadcast");
  const Algorithm* const barrier = &algorithm_named("shm_barrier");
  std::vector<Turn> order;
  uint32_t random = 12345;
  const auto next = [&](uint32_t below) {
    random = random * 1664525u + 1013904223u;
    return (random >> 8) % below;
  };
  for (int64_t i = 0; i < turns; ++i) {
    Turn turn{kSets[next(static_cast<uint32_t>(kSets.size()))], one_shot, {}, 0};
    const uint32_t choice = next(8);
    turn.test.counts = {choice < 3 ? 1 + static_cast<int64_t>(next(14)) : 400 + static_cast<int64_t>(next(300)), 2};
    if (choice == 4 || choice == 5) turn.algorithm = two_shot;
    if (choice == 5) turn.chunk_bytes = 512;
    if (choice == 6) turn.algorithm = broadcast;
    if (choice == 6) turn.chunk_bytes = next(2) * 512;
    if (choice == 7) turn.algorithm = barrier;
    turn.test.kind = turn.algorithm->kind;
    turn.test.root = static_cast<int>(next(static_cast<uint32_t>(turn.members.size())));
    if (choice == 7) turn.test.counts.clear();
    turn.test.lane_slots = std::array<uint8_t, 4>{0, 0, 2, 3}[next(4)];
    order.push_back(std::move(turn));
  }
  return order;
}

bool contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// What a rank shows before a batch.
enum class Early { kNothing, kInput, kOtherTensor, kLaterBatch };

/// Shows the input of another call than the one at hand, or of that.
void show(Early early, const Turn& turn, const Team& team, Mesh& mesh, const Call& call) {
  if (early == Early::kNothing || turn.algorithm->show_early == nullptr) return;
  if (early == Early::kInput) return turn.algorithm->show_early(call, mesh);
  const uint64_t stamp = call.stamp + (early == Early::kLaterBatch ? call.choice.stamps : 0);
  const CollectiveCase other = turn.test.salted(stamp + 1);
  const CaseTensors tensors(other, team, arena_for(*turn.algorithm, turn.test, team.size(), mesh));
  Call wrong = tensors.call(call.choice, stamp);
  wrong.key = UINT64_MAX;
  turn.algorithm->show_early(wrong, mesh);
}

/// The batch as a turn of the engine runs it: steps, and something else in between.
Status step_case(const Turn& turn, const Team& team, Mesh& mesh, uint64_t stamp, Early early) {
  const CollectiveCase salted = turn.test.salted(stamp);
  const CaseTensors tensors(salted, team, arena_for(*turn.algorithm, turn.test, team.size(), mesh));
  AlgorithmChoice choice = turn.algorithm->plan(turn.test.shape(team.size()));
  choice.lane_slots = turn.test.lane_slots;
  Call call = tensors.call(choice, stamp);
  call.key = 1;  // with the stamp it still stands for this batch alone
  show(early, turn, team, mesh, call);
  StepState state;
  for (;;) {
    const Result<StepResult> result = turn.algorithm->step(call, mesh, state);
    if (!result.ok()) return result.status();
    if (result.value() == StepResult::kDone) return tensors.check();
    if (mesh.abort().raised()) return mesh.abort().why();
    relax(WaitStyle::kYield);
  }
}

uint64_t stamps_of(const Turn& turn) {
  const BatchShape shape = turn.test.shape(static_cast<int>(turn.members.size()));
  return (turn.chunk_bytes == 0 ? turn.algorithm->plan(shape) : plan_chunks(shape.bytes, turn.chunk_bytes)).stamps;
}

/// Runs this rank's part of the order; `stepped(i)` says which batches it runs in steps if the algorithm can, and
/// `early(i)` what it shows before them.
template <typename Stepped>
Status run_order(
    const std::vector<Turn>& order, int rank, Mesh& mesh, Stepped&& stepped,
    const std::function<Early(size_t)>& early = [](size_t) { return Early::kNothing; }) {
  uint64_t stamp = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const Turn& turn = order[i];
    uint64_t next = stamp;
    if (contains(turn.members, rank)) {
      const Team team = team_of(turn.members, rank);
      const bool in_steps = turn.algorithm->step != nullptr && turn.chunk_bytes == 0 && stepped(i);
      RUEDA_RETURN_IF_ERROR(in_steps ? step_case(turn, team, mesh, stamp, early(i))
                                     : run_case(*turn.algorithm, turn.test, team, mesh, next, turn.chunk_bytes));
    }
    stamp += stamps_of(turn);
  }
  return {};
}

}  // namespace

TEST_CASE("Sets that share a lane never overwrite what another set still reads") {
  const std::vector<Turn> order = mixture(scaled_down(12000));
  TableRig rig(4);
  CHECK(rig.lanes().first_failure(
            [&](int rank, Mesh& mesh) { return run_order(order, rank, mesh, [](size_t) { return false; }); }) == "");
}

TEST_CASE("Ranks that run a batch in steps and ranks that block in it meet") {
  const std::vector<Turn> order = mixture(scaled_down(12000));
  TableRig rig(4);
  CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) {
    return run_order(order, rank, mesh, [&](size_t i) { return (i * 7 + static_cast<size_t>(rank) * 3) % 4 < 2; });
  }) == "");
}

TEST_CASE("What ranks show before a batch changes no sum, whether the guess was right or not") {
  const std::vector<Turn> order = mixture(scaled_down(12000));
  TableRig rig(4);
  CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) {
    std::mt19937 random(static_cast<uint32_t>(rank));
    const auto early = [&](size_t) {
      return std::array{Early::kNothing, Early::kInput, Early::kInput, Early::kOtherTensor,
                        Early::kLaterBatch}[random() % 5];
    };
    return run_order(
        order, rank, mesh, [](size_t) { return true; }, early);
  }) == "");
}

TEST_CASE("A lane with two slots is enough") {
  LaneRanks::Options options;
  options.layout.slots = 2;
  options.layout.slot_bytes = 4096;
  LaneRanks lanes(4, options);
  const std::vector<Turn> order = mixture(scaled_down(4000));
  CHECK(lanes.first_failure([&](int rank, Mesh& mesh) {
    uint64_t stamp = 0;
    for (const Turn& turn : order) {
      if (turn.algorithm->kind != OpKind::kAllreduce) continue;
      CollectiveCase test = turn.test;
      test.lane_slots = 0;
      RUEDA_RETURN_IF_ERROR(run_case(*turn.algorithm, test, team_of(4, rank), mesh, stamp, 512));
    }
    return Status();
  }) == "");
}

TEST_CASE("A batch in more slots than there are is refused with both numbers") {
  for (const int slots : {1, 5}) {
    LaneRanks lanes(2);
    const auto results = lanes.run([slots](int rank, Mesh& mesh) {
      uint64_t stamp = 0;
      CollectiveCase test;
      test.counts = {5000};
      test.lane_slots = static_cast<uint8_t>(slots);
      return run_case(algorithm_named("shm_two_shot"), test, team_of(2, rank), mesh, stamp);
    });
    CHECK(results[0].code() == Code::kInvalidArgument);
    CHECK(results[0].sentence() == "rank 0: a batch in " + std::to_string(slots) + " slots, of 4; allowed are 2 to 4");
  }
}

TEST_CASE("A chunk that does not fit the slots is refused with both numbers") {
  LaneRanks::Options options;
  options.layout.slot_bytes = 4096;
  LaneRanks lanes(2, options);
  const auto results = lanes.run([](int rank, Mesh& mesh) {
    uint64_t stamp = 0;
    CollectiveCase test;
    test.counts = {5000};
    return run_case(algorithm_named("shm_two_shot"), test, team_of(2, rank), mesh, stamp, 8192);
  });
  CHECK(results[0].code() == Code::kInvalidArgument);
  CHECK(results[0].sentence().find("8192") != std::string::npos);
  CHECK(results[0].sentence().find("4096") != std::string::npos);
}
