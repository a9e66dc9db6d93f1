// Elastic jobs from outside: workers are killed, leave, are removed and come, and the others go on in their processes.
// The test is the launcher.
#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/store/store_keys.h"
#include "tests/bindings/elastic_workers.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string where(int plan, int rank, int size, int worker, int state) {
  return "plan " + std::to_string(plan) + " rank " + std::to_string(rank) + " of " + std::to_string(size) + " worker " +
         std::to_string(worker) + " state " + std::to_string(state);
}

std::vector<std::string> places(int plan, const std::vector<int>& ids) {
  std::vector<std::string> all;
  for (size_t rank = 0; rank < ids.size(); ++rank) {
    all.push_back(where(plan, static_cast<int>(rank), static_cast<int>(ids.size()), ids[rank], 1));
  }
  return all;
}

std::vector<int> without(std::vector<int> ids, int one) {
  std::erase(ids, one);
  return ids;
}

void kill_and_go_on(int victim) {
  const std::vector<int> four = {0, 1, 2, 3};
  const std::vector<int> left = without(four, victim);
  ElasticWorkers workers(4);
  workers.launcher().publish(four);
  workers.await_joined(four);
  workers.expect_sums(four);
  for (const std::string& said : workers.all(left, "enqueue")) CHECK(said == "OK");
  workers.kill(victim);
  workers.launcher().declare_dead(victim, "killed by signal 9 (Killed)");
  workers.launcher().publish(left);
  for (const std::string& said : workers.all(left, "wait")) {
    CHECK_THAT(said, StartsWith("PEER_LOST"));
    CHECK_THAT(said, Contains("rank " + std::to_string(victim)) && Contains("killed by signal 9"));
  }
  CHECK(workers.all(left, "reset") == places(2, left));
  workers.expect_sums(left);
  workers.expect_good_end(left, {victim});
}

}  // namespace

TEST_CASE("when one of four workers is killed, the others go on in the same processes") { kill_and_go_on(2); }

TEST_CASE("when rank 0 is killed, the others go on in the same processes") { kill_and_go_on(0); }

TEST_CASE("workers that die one after the other leave a job of one worker, and it ends well") {
  ElasticWorkers workers(3);
  workers.launcher().publish({0, 1, 2});
  workers.await_joined({0, 1, 2});
  workers.kill(0);
  workers.launcher().declare_dead(0, "killed");
  workers.launcher().publish({1, 2});
  CHECK(workers.all({1, 2}, "reset") == places(2, {1, 2}));
  workers.kill(1);
  workers.launcher().declare_dead(1, "killed");
  workers.launcher().publish({2});
  CHECK(workers.one(2, "reset") == where(3, 0, 1, 2, 1));
  workers.expect_sums({2});
  // Alone, it hears of the next plan as well.
  workers.launcher().end_plan("a worker may join");
  workers.launcher().publish({2});
  CHECK(workers.one(2, "over") == "PEER_LOST a worker may join");
  CHECK(workers.one(2, "reset") == where(4, 0, 1, 2, 1));
  workers.expect_sums({2});
  workers.expect_good_end({2}, {0, 1});
}

TEST_CASE("a worker that asks for a reset of a sound plan ends it for all, and what is in flight ends once") {
  ElasticWorkers workers(3);
  workers.launcher().publish({0, 1, 2});
  workers.await_joined({0, 1, 2});
  for (const std::string& said : workers.all({0, 1, 2}, "enqueue")) CHECK(said == "OK");
  const int first = workers.begin(1, "reset");
  CHECK(workers.launcher().await_reset(1, 1).in_order);
  workers.launcher().end_plan("worker 1 asked for a reset", core::DeathKind::kLeft);
  workers.launcher().publish({0, 1, 2});
  const auto others = workers.all({0, 2}, "reset");
  CHECK(others == std::vector<std::string>{where(2, 0, 3, 0, 1), where(2, 2, 3, 2, 1)});
  CHECK(workers.answer(1, first) == where(2, 1, 3, 1, 1));
  // It is done if rank 0 had heard of it from all before the goodbye, else it fails.
  const std::string first_end = workers.one(0, "wait");
  CHECK_THAT(first_end, StartsWith("OK") || StartsWith("SHUT_DOWN rank 1 ") || StartsWith("PEER_LOST worker 1 asked"));
  for (const std::string& said : workers.all({1, 2}, "wait")) {
    CHECK_THAT(said, StartsWith("OK") || StartsWith("SHUT_DOWN") || StartsWith("PEER_LOST"));
  }
  workers.expect_sums({0, 1, 2});
  workers.expect_good_end({0, 1, 2}, {});
}

TEST_CASE("a worker that is removed is told so, shuts down and exits with 0, and the others go on") {
  ElasticWorkers workers(3);
  workers.launcher().publish({0, 1, 2});
  workers.await_joined({0, 1, 2});
  workers.launcher().end_plan("host there left the list");
  workers.launcher().remove(1);
  workers.launcher().publish({0, 2});
  CHECK(workers.all({0, 2}, "reset") == places(2, {0, 2}));
  CHECK_THAT(workers.one(1, "reset"), StartsWith("REMOVED worker 1 is removed"));
  CHECK_THAT(workers.one(1, "reset"), StartsWith("REMOVED"));                             // and again
  CHECK_THAT(workers.one(1, "sum"), StartsWith("PEER_LOST") || StartsWith("SHUT_DOWN"));  // the others may leave first
  workers.expect_sums({0, 2});
  workers.expect_good_end({0, 1, 2}, {});
}

TEST_CASE("a worker that waits for a plan hears that it is removed though no plan comes") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  const int waits = workers.begin(1, "reset");
  workers.launcher().await_reset(1, 1);
  workers.launcher().remove(1);
  CHECK_THAT(workers.answer(1, waits), StartsWith("REMOVED"));
  workers.expect_good_end({1, 0}, {});
}

TEST_CASE("a newcomer joins with a plan of its own, and takes the ranks after those of the others") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  const int id = workers.start_newcomer();
  workers.launcher().end_plan("worker 2 is ready to join");
  workers.launcher().publish({0, 1, id});
  CHECK(workers.all({0, 1}, "reset") == std::vector<std::string>{where(2, 0, 3, 0, 1), where(2, 1, 3, 1, 1)});
  workers.await_joined({id});
  CHECK(workers.one(id, "place") == where(2, 2, 3, 2, 0));
  workers.expect_sums({0, 1, id});
  workers.expect_good_end({0, 1, id}, {});
}

TEST_CASE("a plan that follows before the one before it was taken is taken in its place") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  for (int i = 0; i < 5; ++i) {
    workers.launcher().end_plan("another one follows");
    workers.launcher().publish({1, 0});
  }
  const auto said = workers.all({1, 0}, "reset");
  CHECK(said == std::vector<std::string>{where(6, 0, 2, 1, 1), where(6, 1, 2, 0, 1)});
  workers.expect_sums({0, 1});
  workers.expect_good_end({0, 1}, {});
}

TEST_CASE("an abort ends the epoch for all ranks with the reason, and the next plan is sound") {
  ElasticWorkers workers(3);
  workers.launcher().publish({0, 1, 2});
  workers.await_joined({0, 1, 2});
  for (const std::string& said : workers.all({0, 2}, "enqueue")) CHECK(said == "OK");
  CHECK(workers.one(1, "abort") == "OK");
  for (const std::string& said : workers.all({0, 2}, "wait")) {
    CHECK_THAT(said, StartsWith("PEER_LOST"));
    CHECK_THAT(said, Contains("rank 1") && Contains("ended the epoch: the loss is?a NaN"));
  }
  const int first = workers.begin(1, "reset");
  CHECK_FALSE(workers.launcher().await_reset(1, 1).in_order);
  workers.launcher().end_plan("worker 1 asked for a reset");
  workers.launcher().publish({0, 1, 2});
  CHECK(workers.all({0, 2}, "reset") == std::vector<std::string>{where(2, 0, 3, 0, 1), where(2, 2, 3, 2, 1)});
  CHECK(workers.answer(1, first) == where(2, 1, 3, 1, 1));
  workers.expect_sums({0, 1, 2});
  workers.expect_good_end({0, 1, 2}, {});
}

TEST_CASE("of two resets at once one joins and the other is refused, and a callback cannot reset") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  const int twice = workers.begin(0, "reset twice");
  workers.launcher().await_reset(0, 1);
  workers.launcher().end_plan("worker 0 asked for a reset");
  workers.launcher().publish({0, 1});
  const int once = workers.begin(1, "reset");
  CHECK(workers.answer(1, once) == where(2, 1, 2, 1, 1));
  const std::string said = workers.answer(0, twice);
  CHECK_THAT(said, Contains("OK") && Contains("INVALID_ARGUMENT another thread is in rueda_reset"));
  workers.expect_sums({0, 1});
  for (const std::string& refused : workers.all({0, 1}, "reset in a callback")) {
    CHECK_THAT(refused, StartsWith("INVALID_ARGUMENT rueda_reset may not be called inside a callback"));
  }
}

TEST_CASE("threads that submit without a pause go on over resets, and each of their operations ends") {
  const std::vector<int> three = {0, 1, 2};
  ElasticWorkers workers(3);
  workers.launcher().publish(three);
  workers.await_joined(three);
  for (const std::string& said : workers.all(three, "storm")) CHECK(said == "OK");
  for (int plan = 2; plan <= 8; ++plan) {
    // Some resets find the plan over, some sound.
    const int first = plan % 2 == 0 ? workers.begin(1, "reset") : 0;
    bool in_order = false;
    if (first != 0) in_order = workers.launcher().await_reset(1, static_cast<uint64_t>(plan) - 1).in_order;
    workers.launcher().end_plan("once more", in_order ? core::DeathKind::kLeft : core::DeathKind::kOver);
    workers.launcher().publish(three);
    const std::vector<int> others = first != 0 ? std::vector<int>{0, 2} : three;
    for (const std::string& said : workers.all(others, "reset")) CHECK_THAT(said, StartsWith("plan"));
    if (first != 0) CHECK_THAT(workers.answer(1, first), StartsWith("plan"));
  }
  for (const std::string& said : workers.all(three, "succeed")) CHECK(said == "OK");
  std::vector<int> numbers;
  for (const int id : three) numbers.push_back(workers.begin(id, "calm"));
  workers.launcher().end_plan("all is well");
  workers.launcher().publish(three);
  for (const int id : three) CHECK(workers.answer(id, numbers[static_cast<size_t>(id)]) == "some succeeded");
  CHECK(workers.all(three, "reset") == places(9, three));
  workers.expect_sums(three);
  workers.expect_good_end(three, {});
}

TEST_CASE("sets of rueda_init return while all their members live, and else name the worker that left") {
  ElasticWorkers workers(3, {{"TEST_SETS", "1"}});
  workers.launcher().publish({0, 1, 2});
  workers.await_joined({0, 1, 2});
  workers.kill(0);
  workers.launcher().declare_dead(0, "killed");
  const int id = workers.start_newcomer();
  // Other ranks than before: the sets follow their workers.
  workers.launcher().publish({2, 1, id});
  CHECK(workers.all({2, 1}, "reset") == std::vector<std::string>{where(2, 0, 3, 2, 1), where(2, 1, 3, 1, 1)});
  workers.await_joined({id});
  const std::string lost =
      "INVALID_ARGUMENT process set 1 of rueda_init ended because worker 0 left the job; make a new one";
  for (const std::string& said : workers.all({2, 1}, "sets")) CHECK(said == lost + ", 3");
  CHECK_THAT(workers.one(id, "sets"), StartsWith(lost) && Contains("is not a member of process set 2"));
  workers.expect_good_end({2, 1, id}, {0});
}

TEST_CASE("sets of rueda_init have the same workers for all, also if one sees a later plan first and rank 0 has died") {
  ElasticWorkers workers(2, {{"TEST_SETS", "1"}});
  workers.kill(0);
  workers.launcher().publish({0, 1, 2});
  const std::string joins = core::wishes_key(workers.launcher().plan_job(), 1);
  REQUIRE(workers.launcher().store().get(joins, core::Deadline::after(std::chrono::seconds(120))).ok());
  workers.launcher().declare_dead(0, "killed");
  workers.launcher().publish({1, 2});
  REQUIRE(workers.launcher().store().remove(core::plan_key(workers.launcher().job(), 1)).ok());
  REQUIRE(workers.start_newcomer() == 2);  // of the first start, but late
  workers.await_joined({1, 2});
  const std::string lost =
      "INVALID_ARGUMENT process set 1 of rueda_init ended because worker 0 left the job; make a new one";
  for (const std::string& said : workers.all({1, 2}, "sets")) CHECK(said == lost + ", 3");
  workers.expect_good_end({1, 2}, {0});
}

TEST_CASE("numbers of names and memory of before a reset can still be used") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  for (const std::string& said : workers.all({0, 1}, "names")) CHECK(said == "2");
  for (const std::string& said : workers.all({0, 1}, "memory")) CHECK(said == "2 2");
  workers.launcher().end_plan("once more");
  workers.launcher().publish({1, 0});
  CHECK(workers.all({1, 0}, "reset") == std::vector<std::string>{where(2, 0, 2, 1, 1), where(2, 1, 2, 0, 1)});
  for (const std::string& said : workers.all({0, 1}, "names")) CHECK(said == "2");
  for (const std::string& said : workers.all({0, 1}, "memory")) CHECK(said == "2 2");
  workers.expect_good_end({0, 1}, {});
}

TEST_CASE("a notice makes the descriptor readable until it is read, and is pending until its plan is joined") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  CHECK(workers.one(0, "membership") == "notices 0 plan 0 changes 0 newcomers 0 removal none");
  const int waits = workers.begin(0, "readable");
  workers.launcher().announce({2, core::kWorkersAdded, 1, 0});
  CHECK(workers.answer(0, waits) == "readable");
  CHECK(workers.one(0, "membership") == "notices 1 plan 2 changes 2 newcomers 1 removal none");
  workers.launcher().announce({3, core::kWorkersRemoved, 0, 60});
  CHECK(workers.one(0, "readable") == "readable");
  CHECK(workers.one(0, "membership") == "notices 2 plan 3 changes 3 newcomers 0 removal coming");
  CHECK(workers.one(0, "membership") == "notices 2 plan 3 changes 3 newcomers 0 removal coming");
  workers.launcher().end_plan("as announced");
  workers.launcher().publish({0, 1});
  CHECK(workers.all({0, 1}, "reset") == places(2, {0, 1}));
  CHECK(workers.one(0, "membership") == "notices 2 plan 3 changes 1 newcomers 0 removal coming");
  workers.launcher().end_plan("as announced");
  workers.launcher().publish({0, 1});
  CHECK(workers.all({0, 1}, "reset") == places(3, {0, 1}));
  CHECK(workers.one(0, "membership") == "notices 2 plan 0 changes 0 newcomers 0 removal none");
  workers.expect_good_end({0, 1}, {});
}

TEST_CASE("fifty resets leave descriptors and threads as they were") {
  ElasticWorkers workers(2);
  workers.launcher().publish({0, 1});
  workers.await_joined({0, 1});
  const auto reset = [&] {
    workers.launcher().end_plan("once more");
    workers.launcher().publish({0, 1});
    const int plan = static_cast<int>(workers.launcher().plan());
    REQUIRE(workers.all({0, 1}, "reset") == places(plan, {0, 1}));
    workers.expect_sums({0, 1});
  };
  for (int i = 0; i < 3; ++i) reset();
  // One or the other may be opened or closed while they are counted; a leak of each reset is fifty.
  const auto counted = [&] {
    std::vector<int> counts;
    for (const std::string& said : workers.all({0, 1}, "resources")) {
      std::istringstream numbers(said);
      for (int one = 0; numbers >> one;) counts.push_back(one);
    }
    return counts;
  };
  const std::vector<int> before = counted();
  REQUIRE(before.size() == 4);
  for (int i = 0; i < 50; ++i) reset();
  const std::vector<int> after = counted();
  REQUIRE(after.size() == 4);
  for (size_t i = 0; i < before.size(); ++i) CHECK(after[i] <= before[i] + 4);
  workers.expect_good_end({0, 1}, {});
}

/// Prints how long it takes from the kill of one of four to the first sum of the other three, part by part.
TEST_CASE("measure: recovery after the death of one of four", "[.]") {
  std::vector<std::vector<int64_t>> parts(3);
  for (int round = 0; round < 50; ++round) {
    ElasticWorkers workers(4);
    workers.launcher().publish({0, 1, 2, 3});
    workers.await_joined({0, 1, 2, 3});
    workers.expect_sums({0, 1, 2, 3});
    const int victim = round % 4;
    const std::vector<int> left = without({0, 1, 2, 3}, victim);
    for (const std::string& said : workers.all(left, "enqueue")) REQUIRE(said == "OK");
    std::vector<int> numbers;
    for (const int id : left) numbers.push_back(workers.begin(id, "recover"));
    workers.kill(victim);
    const auto since = core::SteadyClock::now().time_since_epoch();
    const int64_t begin = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
    workers.launcher().declare_dead(victim, "killed");
    workers.launcher().publish(left);
    std::vector<int64_t> last(3, 0);
    for (size_t i = 0; i < left.size(); ++i) {
      std::istringstream said(workers.answer(left[i], numbers[i]));
      for (int64_t& one : last) {
        int64_t at = 0;
        REQUIRE(said >> at);
        one = std::max(one, at - begin);
      }
    }
    for (size_t i = 0; i < last.size(); ++i) parts[i].push_back(last[i]);
    workers.expect_good_end(left, {victim});
  }
  const char* const names[] = {"operations failed", "reset done", "first sum done"};
  for (size_t i = 0; i < parts.size(); ++i) {
    std::sort(parts[i].begin(), parts[i].end());
    WARN(names[i] << ": p50 " << parts[i][24] << " us, p95 " << parts[i][47] << " us, max " << parts[i].back()
                  << " us");
  }
}

}  // namespace rueda::test
