// Which batches measure how far their cores are apart. A measurement leaves its token, the batch's stamp, in the word
// of the lower rank, even if the other one was late.
#include <catch2/catch.hpp>

#include "tests/ops/table_rig.h"
#include "tests/support/collective_case.h"

using namespace rueda::core;

namespace {

constexpr int kTokenShift = 20;

/// The stamp of the last measurement, after one batch of this size with this stamp.
uint64_t last_measured(TableRig& rig, const Algorithm& algorithm, int64_t bytes, uint64_t stamp) {
  CollectiveCase test;
  test.counts = {bytes / static_cast<int64_t>(size_of(test.dtype))};
  CHECK(rig.lanes().first_failure([&](int rank, Mesh& mesh) {
    uint64_t next = stamp;
    return run_case(algorithm, test, team_of(2, rank), mesh, next);
  }) == "");
  return rig.lanes().mesh(0).words(0).ping.load() >> kTokenShift;
}

}  // namespace

TEST_CASE("Batches from 16 KiB on measure the cores' distance, shorter ones do not") {
  for (const char* const name : {"shm_one_shot", "shm_two_shot"}) {
    INFO(name);
    TableRig rig(2);
    const Algorithm& algorithm = algorithm_named(name);
    CHECK(last_measured(rig, algorithm, 16 << 10, 3) == 3);
    CHECK(last_measured(rig, algorithm, (16 << 10) - 64, 10) == 3);
    CHECK(last_measured(rig, algorithm, 64 << 10, 20) == 20);
  }
}
