// Newcomers of one long job, and its members, die at each step of a newcomer's way into it. What is left goes on, takes
// the next newcomer in, and is struck again, so that most of it happens in late plans. Another newcomer waits outside
// all the while, and joins at the end.
#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/elastic_workers.h"
#include "tests/bindings/join_steps.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

constexpr int kMembers = 3;

/// A job of three members whose newcomers wait outside until they are told to join.
class GrowingJob {
 public:
  GrowingJob() {
    for (int id = 0; id < kMembers; ++id) members_.push_back(id);
    launcher_.publish(members_);
    workers_.await_joined(members_);
    waits_all_the_while_ = start_newcomer();
  }
  ElasticWorkers& workers() { return workers_; }
  ElasticLauncher& launcher() { return launcher_; }
  int newest() const { return newest_; }

  /// Starts one that waits outside.
  int start_newcomer() {
    newest_ = workers_.start_newcomer();
    workers_.await_joined({newest_});
    return newest_;
  }
  void start_unready_newcomer() { newest_ = workers_.start_newcomer(); }

  /// Lets the newest one join at `position`, the rank it is to have, while the worker with rank `victim` dies at
  /// `step`.
  void join_and_die(const JoinStep& step, int position, int victim) {
    INFO("plan " << launcher_.plan() + 1 << ": rank " << victim << " dies once " << step.name
                 << "; the newcomer is rank " << position);
    std::vector<int> joiners = members_;
    joiners.insert(joiners.begin() + position, newest_);
    const int dies = joiners[static_cast<size_t>(victim)];
    const auto epochs = launcher_.store().add(core::epochs_key(launcher_.job()), 0);
    JoinPoint at{launcher_.job(), launcher_.plan() + 1, static_cast<uint64_t>(epochs.value()) + 1, dies, victim, "",
                 position};
    std::optional<Failpoint> failpoint;
    if (!step.needs_nonce) failpoint.emplace(launcher_, step.key(at), workers_.pid(dies));
    const auto reset_of = [&](int id) {
      return step.newcomer_formed && id == newest_ ? "reset" : "reset to " + std::to_string(at.plan + 1);
    };
    std::vector<int> answers(joiners.size());
    launcher_.end_plan("worker " + std::to_string(newest_) + " is ready to join");
    const auto last =
        static_cast<size_t>(at.answered_rank()) == joiners.size() - 1 ? joiners.size() - 2 : joiners.size() - 1;
    for (size_t i = 0; i < joiners.size(); ++i) {
      if (i != last) answers[i] = workers_.begin(joiners[i], reset_of(joiners[i]));  // all live still
    }
    launcher_.publish(joiners);
    if (step.needs_nonce) {
      await_nonce(launcher_, at);
      failpoint.emplace(launcher_, step.key(at), workers_.pid(dies));
    }
    answers[last] = workers_.begin(joiners[last], reset_of(joiners[last]));
    REQUIRE(failpoint->await());
    launcher_.declare_dead(dies, "killed by signal 9 (Killed)");
    const std::string formed = stands(static_cast<size_t>(position), joiners, newest_);
    std::erase(joiners, dies);
    answers.erase(answers.begin() + victim);
    launcher_.publish(joiners);
    if (step.newcomer_formed && dies != newest_) {
      const size_t rank = static_cast<size_t>(position) - (victim < position ? 1 : 0);
      CHECK(workers_.answer(newest_, answers[rank]) == formed);
      answers[rank] = workers_.begin(newest_, "reset");
    }
    for (size_t rank = 0; rank < joiners.size(); ++rank) {
      INFO("worker " << joiners[rank]);
      const std::string said = workers_.answer(joiners[rank], answers[rank]);
      INFO("it says: " << said);
      const bool may_be_new = joiners[rank] == newest_ && !step.newcomer_formed;
      CHECK((said == stands(rank, joiners) || (may_be_new && said == stands(rank, joiners, newest_))));
    }
    workers_.expect_sums(joiners);
    members_ = joiners;
    killed_.push_back(dies);
  }

  /// The newest dies, and nobody has heard of it yet.
  void newest_dies_unheard() {
    workers_.kill(newest_);
    killed_.push_back(newest_);
    const uint64_t plan = launcher_.plan();
    workers_.expect_sums(members_);
    CHECK(launcher_.plan() == plan);
  }

  /// The newest joins with the next plan, and dies once it has.
  void newest_joins_and_dies() {
    join(newest_);
    workers_.kill(newest_);
    killed_.push_back(newest_);
    launcher_.declare_dead(newest_, "killed by signal 9 (Killed)");
    std::erase(members_, newest_);
    launcher_.publish(members_);
    expect_places(workers_.all(members_, "reset"));
  }

  /// The one that has waited all the while joins, and all end well.
  void end() {
    join(waits_all_the_while_);
    workers_.expect_sums(members_);
    workers_.expect_good_end(members_, killed_);
  }

 private:
  /// "plan 8 rank 1 of 3 worker 2 state 1": all but the newcomer have been in a plan when a call of theirs returned.
  std::string stands(size_t rank, const std::vector<int>& ids, int newcomer = -1) const {
    return "plan " + std::to_string(launcher_.plan()) + " rank " + std::to_string(rank) + " of " +
           std::to_string(ids.size()) + " worker " + std::to_string(ids[rank]) + " state " +
           (ids[rank] == newcomer ? "0" : "1");
  }
  void expect_places(const std::vector<std::string>& said) const {
    for (size_t rank = 0; rank < said.size(); ++rank) CHECK(said[rank] == stands(rank, members_));
  }
  void join(int id) {
    const int joins = workers_.begin(id, "reset");
    CHECK(launcher_.await_reset(id, 0) == core::PlanRequest{});
    launcher_.end_plan("worker " + std::to_string(id) + " is ready to join");
    const std::vector<int> before = members_;
    members_.push_back(id);
    launcher_.publish(members_);
    expect_places(workers_.all(before, "reset"));
    CHECK(workers_.answer(id, joins) == stands(members_.size() - 1, members_, id));
  }

  ElasticWorkers workers_{kMembers, {{"TEST_WAITS", "1"}, {"TEST_SETS", "1"}, {"RUEDA_ADMIT", "ready"}}};
  ElasticLauncher& launcher_ = workers_.launcher();
  std::vector<int> members_, killed_;
  int newest_ = -1;
  int waits_all_the_while_ = -1;
};

}  // namespace

TEST_CASE("the tests' launcher, as hvdrun, counts a newcomer's word that it has formed a plan until the plan is over") {
  ElasticLauncher launcher;
  const auto says_formed = [&] { return launcher.store().add(core::formed_key(launcher.plan_job(), 1), 1).ok(); };
  const auto holds = [&] {
    const auto plan = launcher.store().get(core::plan_key(launcher.job(), launcher.plan()), patience());
    return core::decode_plan(plan.value()).value().workers[1].holds_state == 1;
  };
  launcher.publish({0});
  launcher.end_plan("worker 1 is ready to join");
  launcher.publish({0, 1});
  launcher.declare_dead(2, "not there");
  CHECK(says_formed());
  launcher.publish({0, 1});
  CHECK_FALSE(holds());
  launcher.end_plan("once more");
  CHECK(says_formed());
  launcher.publish({0, 1});
  CHECK_FALSE(holds());
  CHECK(says_formed());
  launcher.end_plan("once more");
  launcher.publish({0, 1});
  CHECK(holds());
}

TEST_CASE("a newcomer that dies before it asks to join disturbs nobody") {
  GrowingJob job;
  for (int turn = 0; turn < 3; ++turn) {
    job.start_unready_newcomer();
    if (turn == 0) job.workers().await_begun(job.newest());
    // It follows the plans: that is the first thing it does once it is connected.
    const size_t waits = job.launcher().store().waiting();
    const core::Deadline deadline = patience();
    while (turn == 1 && job.launcher().store().waiting() <= waits && !deadline.passed()) std::this_thread::yield();
    if (turn == 2) job.workers().await_joined({job.newest()});
    job.newest_dies_unheard();
  }
  job.end();
}

TEST_CASE("a newcomer or a member that dies while a newcomer joins, as any rank, leaves the others in the next plan") {
  GrowingJob job;
  int turn = 0;
  std::vector<JoinStep> steps(std::begin(kJoinSteps), std::end(kJoinSteps));
  steps.push_back({"rank 0 has told the newcomer the process sets",
                   [](const JoinPoint& at) { return core::sets_key(at.planned()); }});
  steps.push_back({"the newcomer has told hvdrun that it has formed the plan",
                   [](const JoinPoint& at) { return core::formed_key(at.planned(), at.newcomer); }, false, true});
  int round = 0;
  for (const JoinStep& step : steps) {
    ++round;  // under a sanitizer one rank and one newcomer die at each step, and not each of them
    for (int victim = 0; victim <= kMembers; ++victim) {
      if (!core::kThorough && victim != round % (kMembers + 1)) continue;
      job.start_newcomer();
      const int position = 1 + turn++ % kMembers;  // never rank 0, which holds the state
      job.join_and_die(step, position, victim);
    }
    for (int position = 1; position <= kMembers; ++position) {
      if (!core::kThorough && position != 1 + round % kMembers) continue;
      job.start_newcomer();
      job.join_and_die(step, position, position);
    }
  }
  job.start_newcomer();
  job.newest_joins_and_dies();
  job.end();
}

}  // namespace rueda::test
