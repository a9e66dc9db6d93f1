// A newcomer of an elastic job that waits outside until it is ready. The test is the launcher.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "runtime/store/store_keys.h"
#include "tests/bindings/elastic_workers.h"

namespace rueda::test {
namespace {

using Catch::Matchers::StartsWith;

std::string stands_at(int plan, int rank, int size, int worker, int state) {
  return "plan " + std::to_string(plan) + " rank " + std::to_string(rank) + " of " + std::to_string(size) + " worker " +
         std::to_string(worker) + " state " + std::to_string(state);
}

}  // namespace

TEST_CASE("a newcomer that waits outside knows its place, and nobody hears of it until it resets") {
  ElasticWorkers workers(2, {{"TEST_WAITS", "1"}, {"RUEDA_ADMIT", "ready"}});
  ElasticLauncher& launcher = workers.launcher();
  launcher.publish({0, 1});
  workers.await_joined({0, 1});
  CHECK(workers.one(0, "place") == stands_at(1, 0, 2, 0, 0));
  const int id = workers.start_newcomer();
  workers.await_joined({id});
  CHECK(workers.one(id, "place") == stands_at(1, 2, 3, id, 0) + " waits");
  CHECK_FALSE(launcher.store().get(core::reset_key(launcher.job(), id), core::Deadline::after({})).ok());
  const std::string refused = "INVALID_ARGUMENT this process is a new worker of a running job, and waits outside";
  for (const char* call : {"sum", "enqueue", "abort", "over"}) CHECK_THAT(workers.one(id, call), StartsWith(refused));
  workers.expect_sums({0, 1});
  const int joins = workers.begin(id, "reset");
  CHECK(launcher.await_reset(id, 0) == core::PlanRequest{});
  launcher.end_plan("worker 2 is ready to join");
  launcher.publish({0, 1, id});
  CHECK(workers.all({0, 1}, "reset") == std::vector<std::string>{stands_at(2, 0, 3, 0, 1), stands_at(2, 1, 3, 1, 1)});
  CHECK(workers.answer(id, joins) == stands_at(2, 2, 3, id, 0));
  workers.expect_sums({0, 1, id});
  workers.expect_good_end({0, 1, id}, {});
}

TEST_CASE("a newcomer that waits outside may shut down, and one that was removed meanwhile hears so when it resets") {
  ElasticWorkers workers(2, {{"TEST_WAITS", "1"}, {"TEST_SETS", "1"}, {"RUEDA_ADMIT", "ready"}});
  workers.launcher().publish({0, 1, 2});
  REQUIRE(workers.start_newcomer() == 2);
  workers.await_joined({0, 1, 2});
  const int leaves = workers.start_newcomer(), removed = workers.start_newcomer();
  workers.await_joined({leaves, removed});
  CHECK_THAT(workers.one(leaves, "sets"), StartsWith("INVALID_ARGUMENT this process is a new worker"));
  workers.launcher().remove(removed);
  CHECK_THAT(workers.one(removed, "reset"), StartsWith("REMOVED"));
  workers.expect_sums({0, 1, 2});
  workers.expect_good_end({leaves, removed, 0, 1, 2}, {});
}

TEST_CASE(
    "a newcomer does not wait outside if the others have been told of it, or if its program has not asked for it") {
  const bool told = GENERATE(true, false);
  ElasticWorkers workers(2, told ? RankProcesses::Variables{{"TEST_WAITS", "1"}, {"RUEDA_ADMIT", "discovered"}}
                                 : RankProcesses::Variables{{"RUEDA_ADMIT", "ready"}});
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  const int id = workers.start_newcomer();
  CHECK(workers.launcher().await_reset(id, 0) == core::PlanRequest{});
  workers.launcher().end_plan("worker 2 is ready to join");
  workers.launcher().publish({0, 1, id});
  CHECK(workers.all({0, 1}, "reset") == std::vector<std::string>{stands_at(2, 0, 3, 0, 1), stands_at(2, 1, 3, 1, 1)});
  workers.await_joined({id});
  CHECK(workers.one(id, "place") == stands_at(2, 2, 3, id, 0));
  workers.expect_good_end({0, 1, id}, {});
}

}  // namespace rueda::test
