// The end of a plan, by the death of any worker, reaches the others at every step of forming it. A worker that never
// comes holds the others up at one step after the other: the test plays it, and does as much of its part as leads to
// that step.
#include <poll.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/net/unix_socket.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/store_keys.h"
#include "tests/bindings/elastic_workers.h"

namespace rueda::test {
namespace {

constexpr int kReal = 3;
constexpr int kFake = kReal;

/// The last worker of plan 2, played by this process.
class FakeWorker {
 public:
  explicit FakeWorker(ElasticLauncher& launcher) : launcher_(launcher), store_(launcher.store()) {
    name_ = core::random_socket_name().value();
    silent_ = core::listen_abstract(name_).value();
  }

  /// Leaves a wish like that of rank 1, with a socket that takes connections and says nothing.
  void leave_wish(const std::string& host) {
    const std::string job = launcher_.plan_job();
    core::Wish wish = core::decode_wish(store_.get(core::wish_key(job, 1, 1), patience()).value()).value();
    wish.rank = kFake;
    wish.nonce = "fake";
    wish.endpoint.host = host;
    wish.endpoint.worker = "fake";
    wish.endpoint.unix_name = name_;
    wish.endpoint.port = 9;
    REQUIRE(store_.add(core::wishes_key(job, kFake), 1).ok());
    REQUIRE(store_.set(core::wish_key(job, kFake, 1), core::encode(wish)).ok());
    epoch_ = core::decode_numbers(store_.get(core::answer_key(job, "fake"), patience()).value()).value().front();
  }
  /// Reports that it shares memory with nobody.
  void report() {
    core::LocalReport report;
    REQUIRE(store_.set(core::local_key(launcher_.plan_job(), epoch_, kFake), core::encode(report)).ok());
  }
  /// Waits until a rank has begun to pass descriptors with it.
  void await_dial() {
    pollfd dialled{silent_.get(), POLLIN, 0};
    REQUIRE(::poll(&dialled, 1, 120'000) == 1);
  }
  void await_report(int rank) {
    REQUIRE(store_.get(core::local_key(launcher_.plan_job(), epoch_, rank), patience()).ok());
  }
  void await_hosts() { REQUIRE(store_.get(core::hosts_key(launcher_.plan_job(), epoch_), patience()).ok()); }

 private:
  ElasticLauncher& launcher_;
  core::StoreServer& store_;
  std::string name_;
  core::UniqueFd silent_;
  uint64_t epoch_ = 0;
};

/// Three workers reset into a plan with a fourth that `hold_up` plays; then `victim` dies, which the fourth one has
/// always done. Nothing else would end the others' waits before the test's patience does.
template <typename HoldUp>
void die_while_forming(HoldUp&& hold_up, int victim) {
  INFO("worker " << victim << " dies");
  const std::vector<int> real = {0, 1, 2};
  ElasticWorkers workers(kReal, {{"RUEDA_INIT_TIMEOUT_SECONDS", "600"}});
  ElasticLauncher& launcher = workers.launcher();
  launcher.publish(real);
  workers.await_joined(real);
  launcher.end_plan("another worker joins");
  launcher.publish({0, 1, 2, kFake});
  // A worker may join plan 2 before it ends, if it needs nothing of the fourth one.
  std::vector<int> numbers;
  for (const int id : real) numbers.push_back(workers.begin(id, "reset to 3"));
  FakeWorker fake(launcher);
  hold_up(launcher, fake);
  std::vector<int> left = real;
  if (victim != kFake) {
    workers.kill(victim);
    std::erase(left, victim);
  }
  launcher.declare_dead(victim, victim == kFake ? "it was never there" : "killed by signal 9 (Killed)");
  launcher.publish(left);
  for (size_t rank = 0; rank < left.size(); ++rank) {
    const int id = left[rank];
    CHECK(workers.answer(id, numbers[static_cast<size_t>(id)]) == "plan 3 rank " + std::to_string(rank) + " of " +
                                                                      std::to_string(left.size()) + " worker " +
                                                                      std::to_string(id) + " state 1");
  }
  workers.expect_sums(left);
  workers.expect_good_end(left, victim == kFake ? std::vector<int>() : std::vector<int>{victim});
}

template <typename HoldUp>
void end_while_forming(HoldUp&& hold_up) {
  for (const int victim : {0, 1, 2, kFake}) die_while_forming(hold_up, victim);
}

}  // namespace

TEST_CASE("a plan that ends while its ranks are awaited leads to the next one") {
  end_while_forming([](ElasticLauncher& launcher, FakeWorker&) {
    for (const int rank : {0, 1, 2})
      REQUIRE(launcher.store().get(core::wish_key(launcher.plan_job(), rank, 1), patience()).ok());
  });
}

TEST_CASE("a plan that ends while descriptors are passed leads to the next one") {
  end_while_forming([](ElasticLauncher&, FakeWorker& fake) {
    fake.leave_wish("here");
    fake.await_dial();
  });
}

TEST_CASE("a plan that ends while a report is awaited leads to the next one") {
  end_while_forming([](ElasticLauncher&, FakeWorker& fake) {
    fake.leave_wish("elsewhere");
    for (const int rank : {0, 1, 2}) fake.await_report(rank);
  });
}

TEST_CASE("a plan that ends while control connections are awaited leads to the next one") {
  end_while_forming([](ElasticLauncher&, FakeWorker& fake) {
    fake.leave_wish("elsewhere");
    fake.report();
    fake.await_hosts();
  });
}

TEST_CASE("a plan that ends just when it was formed leads to the next one") {
  const std::vector<int> three = {0, 1, 2};
  ElasticWorkers workers(3);
  ElasticLauncher& launcher = workers.launcher();
  launcher.publish(three);
  workers.await_joined(three);
  // Each second plan ends as soon as a rank has come: some are still being formed then, some have just begun.
  for (int plan = 2; plan < 12; plan += 2) {
    launcher.end_plan("once more");
    launcher.publish(three);
    std::vector<int> numbers;
    for (const int id : three) numbers.push_back(workers.begin(id, "reset to " + std::to_string(plan + 1)));
    REQUIRE(launcher.store().get(core::wish_key(launcher.plan_job(), plan % 3, 1), patience()).ok());
    launcher.end_plan("too early");
    launcher.publish(three);
    for (const int id : three) {
      CHECK(workers.answer(id, numbers[static_cast<size_t>(id)]) == "plan " + std::to_string(plan + 1) + " rank " +
                                                                        std::to_string(id) + " of 3 worker " +
                                                                        std::to_string(id) + " state 1");
    }
    workers.expect_sums(three);
  }
  workers.expect_good_end(three, {});
}

}  // namespace rueda::test
