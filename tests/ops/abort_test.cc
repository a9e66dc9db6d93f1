#include <catch2/catch.hpp>
#include <chrono>

#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

constexpr int kSize = 4;
constexpr int kLost = 3;

CollectiveCase case_of(OpKind kind) {
  CollectiveCase test;
  test.kind = kind;
  test.counts = {100000};
  if (kind == OpKind::kBarrier) test.counts.clear();
  if (kind == OpKind::kGather || kind == OpKind::kReduce)
    test.counts = {600000};  // more than the slots hold: no rank is done without the root
  test.root = kLost;
  return test;
}

/// Algorithms that can serve the case, with a chunk length that gives several chunks if the algorithm has chunks.
template <typename Body>
void for_algorithms(Body&& body) {
  for (const Algorithm& algorithm : algorithms()) {
    CollectiveCase test = case_of(algorithm.kind);
    if (!may_serve(algorithm, test.shape(kSize))) test.counts = {100};
    if (!may_serve(algorithm, test.shape(kSize))) continue;
    INFO(name_of(algorithm.kind) << " algorithm " << algorithm.name);
    body(algorithm, test);
  }
}

Status run_until(const Algorithm& algorithm, const CollectiveCase& test, int rank, Mesh& mesh, Deadline deadline) {
  const Team team = team_of(kSize, rank);
  const CaseTensors tensors(test, team, arena_for(algorithm, test, kSize, mesh));
  return algorithm.run(tensors.call(algorithm.plan(shape_for(algorithm, test, kSize)), 5000), mesh, deadline);
}

}  // namespace

TEST_CASE("A rank that never joins a batch ends it on all others with the reason of the abort") {
  for_algorithms([](const Algorithm& algorithm, const CollectiveCase& test) {
    TableRig rig(kSize);
    const Status reason(Code::kPeerLost, "rank 3 (host a, pid 7) was killed", kLost);
    const auto results = rig.lanes().run([&](int rank, Mesh& mesh) -> Status {
      uint64_t stamp = 0;
      RUEDA_RETURN_IF_ERROR(run_case(algorithm, test, team_of(kSize, rank), mesh, stamp));
      if (rank != kLost) return run_until(algorithm, test, rank, mesh, Deadline::never());
      rig.lanes().abort_all(reason);
      return {};
    });
    for (int rank = 0; rank < kLost; ++rank) {
      const Status& result = results[static_cast<size_t>(rank)];
      CHECK(result.code() == Code::kPeerLost);
      CHECK(result.rank() == kLost);
      CHECK(result.sentence() == reason.sentence());
    }
  });
}

TEST_CASE("A wait for a rank that does not come ends at the deadline") {
  for_algorithms([](const Algorithm& algorithm, const CollectiveCase& test) {
    TableRig rig(kSize);
    std::atomic<int> left{0};
    const auto results = rig.lanes().run([&](int rank, Mesh& mesh) -> Status {
      if (rank == kLost) return {};
      Status result = run_until(algorithm, test, rank, mesh, Deadline::after(std::chrono::milliseconds(20)));
      left.fetch_add(1);
      return result;
    });
    CHECK(left.load() == kLost);
    CHECK(std::any_of(results.begin(), results.end(), [](const Status& s) { return s.code() == Code::kTimeout; }));
    CHECK(std::none_of(results.begin(), results.begin() + kLost, [](const Status& s) { return s.ok(); }));
  });
}

TEST_CASE("A rank that gives up in the middle of a batch leaves nobody waiting") {
  for_algorithms([](const Algorithm& algorithm, const CollectiveCase& test) {
    TableRig rig(kSize);
    const auto results = rig.lanes().run([&](int rank, Mesh& mesh) -> Status {
      uint64_t stamp = 0;
      for (int batch = 0; batch < 1000; ++batch) {
        RUEDA_RETURN_IF_ERROR(run_case(algorithm, test, team_of(kSize, rank), mesh, stamp));
        if (rank == kLost && batch == 2) return Status(Code::kSystem, "gives up");
      }
      return {};
    });
    for (const Status& result : results) CHECK_FALSE(result.ok());
  });
}
