// hvdrun's keys of an elastic job.

#include "launcher/elastic_store.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "runtime/store/store_keys.h"

using namespace rueda::core;
using namespace rueda::core::launcher;

TEST_CASE("hvdrun's store does not grow with the plans, notices and workers of a job") {
  constexpr uint64_t kPlans = 300, kHalf = 150, kLate = 3;
  const auto store = JobStore::start(0, {"127.0.0.1"}, {[](int) {}, [](int) {}, [] {}}).value();
  std::vector<std::pair<int64_t, uint64_t>> formed;
  ElasticStore::Events events{[](int64_t, uint64_t) {}, [](int64_t, uint64_t) {}, [](int64_t, uint64_t) {},
                              [](int64_t) {}, [](uint64_t) {}};
  events.formed = [&formed](int64_t worker, uint64_t plan) { formed.emplace_back(worker, plan); };
  ElasticStore plans(*store, events);
  const auto has = [&store](const std::string& key) {
    return store->server().get(key, Deadline::at(SteadyClock::now())).ok();
  };
  size_t waits = 0;
  for (uint64_t number = 1; number <= kPlans; ++number) {
    const auto newcomer = static_cast<int64_t>(number);
    plans.watch(newcomer);
    Plan plan;
    plan.number = number;
    plan.workers = {{0, "a", 0, 1}, {newcomer, "a", 1, 0}};
    REQUIRE(plans.publish(plan).ok());
    REQUIRE(store->server().add(formed_key(planned_job(store->job(), number), 1), 1).ok());
    REQUIRE(formed.size() == number);  // a late worker's word is not heard
    CHECK(formed.back() == std::pair(newcomer, number));
    if (number > kLate) {  // the keys of that plan are removed already
      REQUIRE(store->server().add(formed_key(planned_job(store->job(), number - kLate), 1), 1).ok());
    }
    MembershipNotice notice;
    notice.plan = number + 1;
    REQUIRE(plans.notify(notice).ok());
    REQUIRE(plans.declare_void(number, DeathVerdict{0, 1, "a", 42, "killed"}).ok());
    REQUIRE(plans.remove(newcomer, "removed").ok());
    REQUIRE(store->server().set(reset_key(store->job(), newcomer), "1").ok());
    plans.forget(newcomer);
    if (number == kHalf) waits = store->server().waiting();
  }
  CHECK(store->server().waiting() == waits);
  const auto verdict = [&store](uint64_t plan) { return death_key(planned_job(store->job(), plan)); };
  CHECK(has(verdict(kPlans)));
  CHECK(has(change_key(store->job(), kPlans)));
  CHECK_FALSE(has(verdict(kHalf)));
  CHECK_FALSE(has(change_key(store->job(), kHalf)));
  CHECK_FALSE(has(plan_key(store->job(), kHalf)));
  CHECK(store->server().add(formed_key(planned_job(store->job(), kHalf), 1), 0).value() == 0);
  for (const int64_t worker : {int64_t{150}, int64_t{300}}) {
    CHECK_FALSE(has(reset_key(store->job(), worker)));
    CHECK_FALSE(has(removed_key(store->job(), worker)));
  }
}
