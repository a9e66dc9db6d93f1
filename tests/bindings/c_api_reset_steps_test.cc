// A worker dies at each step of joining a plan, as each rank. The store's thread kills it in the middle of the step's
// request: the key is there, and nobody has had an answer yet. The others must be in the next plan.
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tests/bindings/elastic_workers.h"
#include "tests/bindings/join_steps.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

constexpr int kJoiners = 3;

void die_while_joining(const JoinStep& step, int victim) {
  INFO("rank " << victim << " dies once " << step.name);
  ElasticWorkers workers(kJoiners);
  ElasticLauncher& launcher = workers.launcher();
  std::vector<int> all, left;
  for (int id = 0; id < kJoiners; ++id) {
    all.push_back(id);
    if (id != victim) left.push_back(id);
  }
  launcher.publish(all);
  workers.await_joined(all);
  JoinPoint at{launcher.job(), 2, 2, victim, victim, ""};  // each plan forms one epoch
  std::optional<Failpoint> failpoint;
  if (!step.needs_nonce) failpoint.emplace(launcher, step.key(at), workers.pid(victim));
  launcher.end_plan("once more");
  launcher.publish(all);
  std::vector<int> numbers(all.size());
  const int last = victim == kJoiners - 1 ? kJoiners - 2 : kJoiners - 1;  // the others are there before it
  for (const int id : all) {
    if (id != last) numbers[static_cast<size_t>(id)] = workers.begin(id, "reset to 3");
  }
  if (step.needs_nonce) {
    await_nonce(launcher, at);
    failpoint.emplace(launcher, step.key(at), workers.pid(victim));
  }
  numbers[static_cast<size_t>(last)] = workers.begin(last, "reset to 3");
  REQUIRE(failpoint->await());
  launcher.declare_dead(victim, "killed by signal 9 (Killed)");
  launcher.publish(left);
  for (size_t rank = 0; rank < left.size(); ++rank) {
    const int id = left[rank];
    CHECK(workers.answer(id, numbers[static_cast<size_t>(id)]) ==
          "plan 3 rank " + std::to_string(rank) + " of 2 worker " + std::to_string(id) + " state 1");
  }
  workers.expect_sums(left);
  workers.expect_good_end(left, {victim});
}

}  // namespace

TEST_CASE("a worker that dies at any step of joining a plan, as any rank, leaves the others in the next one") {
  int round = 0;
  for (const JoinStep& step : kJoinSteps) {
    ++round;  // under a sanitizer another rank dies at each step, and not each of them
    for (int victim = 0; victim < kJoiners; ++victim) {
      if (core::kThorough || victim == round % kJoiners) die_while_joining(step, victim);
    }
  }
}

}  // namespace rueda::test
