// Batches of many chunks in two, three and all slots of their lane, by every algorithm on one host but adasum's, which
// are exchanges. The two-level algorithms are in hierarchical_test.cc.
#include <catch2/catch.hpp>

#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

/// More chunks than slots, the last one short.
CollectiveCase many_chunks(const Algorithm& algorithm, uint32_t chunk_bytes) {
  CollectiveCase test;
  test.kind = algorithm.kind;
  test.counts = {static_cast<int64_t>(13 * chunk_bytes / size_of(test.dtype)) + 3, 5};
  if (algorithm.kind == OpKind::kBarrier) test.counts = {};
  return test;
}

}  // namespace

TEST_CASE("Every algorithm runs in two slots, in three and in all, one batch after the other") {
  constexpr uint32_t kChunk = 4096;
  for (const Algorithm& algorithm : algorithms()) {
    const int size = algorithm.kind == OpKind::kSend ? 2 : 3;
    const CollectiveCase test = many_chunks(algorithm, kChunk);
    if (!may_serve(algorithm, test.shape(size))) continue;
    TableRig rig(size);
    INFO(name_of(algorithm.kind) << " algorithm " << algorithm.name);
    CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) -> Status {
      const Team team = team_of(size, rank);
      uint64_t stamp = 0;
      for (const int slots : {2, 3, 0, 2, 4, 3, 2}) {
        CollectiveCase turn = test;
        turn.lane_slots = static_cast<uint8_t>(slots);
        turn.root = slots % size;
        RUEDA_RETURN_IF_ERROR(run_case(algorithm, turn, team, mesh, stamp, kChunk));
      }
      return {};
    }) == "");
  }
}
