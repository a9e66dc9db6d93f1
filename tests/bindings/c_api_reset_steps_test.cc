// A worker dies at each step of joining a plan, as each rank. The store's thread kills it in the middle of the step's
// request: the key is there, and nobody has had an answer yet. The others must be in the next plan.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/store/store_keys.h"
#include "tests/bindings/elastic_workers.h"

namespace rueda::test {
namespace {

constexpr int kJoiners = 3;
constexpr uint64_t kSecondEpoch = 2;  // each plan forms one

/// A key that is set on the way into plan 2, by rank `rank` or about it.
using StepKey = std::string (*)(const std::string& job, int rank);

struct JoinStep {
  const char* name;
  StepKey key;
};

const JoinStep kJoinSteps[] = {
    {"it asks for the next plan",
     [](const std::string& job, int rank) { return core::reset_key(job.substr(0, job.find('.')), rank); }},
    {"it begins", [](const std::string& job, int rank) { return core::wishes_key(job, rank); }},
    {"its wish is there", [](const std::string& job, int rank) { return core::wish_key(job, rank, 1); }},
    {"rank 0 has seen its wish", [](const std::string& job, int rank) { return core::taken_key(job, rank); }},
    {"it has told with whom it shares memory",
     [](const std::string& job, int rank) { return core::local_key(job, kSecondEpoch, rank); }},
    {"the hosts are known", [](const std::string& job, int) { return core::hosts_key(job, kSecondEpoch); }},
};

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
  const auto dead = std::make_shared<std::promise<void>>();
  const std::string key = step.key(core::planned_job(launcher.job(), 2), victim);
  // From now on, since a worker has also asked for its first plan.
  launcher.store().each_time(key, [dead, pid = workers.pid(victim), once = std::make_shared<std::once_flag>()] {
    std::call_once(*once, [&] {
      ::kill(pid, SIGKILL);
      dead->set_value();
    });
  });
  launcher.end_plan("once more");
  launcher.publish(all);
  std::vector<int> numbers;
  for (const int id : all) numbers.push_back(workers.begin(id, "reset to 3"));
  REQUIRE(dead->get_future().wait_for(std::chrono::seconds(120)) == std::future_status::ready);
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
  for (const JoinStep& step : kJoinSteps) {
    for (int victim = 0; victim < kJoiners; ++victim) die_while_joining(step, victim);
  }
}

}  // namespace rueda::test
