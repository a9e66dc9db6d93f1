// A worker's half of the protocol in store_keys.h, without an engine: what rueda_init and rueda_reset do with the
// store. `get` waits in the store until the value is there or the plan's verdict ends it; nothing here sleeps.

#include "tests/launcher/elastic_steps.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "runtime/store/death.h"
#include "runtime/store/plan.h"
#include "runtime/store/store_keys.h"

namespace rueda::test {
namespace {

using namespace core;

/// The one worker that this process is.
struct Worker {
  std::string job = std::getenv("RUEDA_JOB");
  int64_t id = std::atoll(std::getenv("RUEDA_WORKER_ID"));
  Plan plan;  // the one it is in, or was last
  int64_t notices = 0;
  std::string own_job() const { return planned_job(job, plan.number); }
};

Deadline patience() { return Deadline::after(std::chrono::seconds(120)); }
Deadline at_once() { return Deadline::at(SteadyClock::now()); }

[[noreturn]] void leave(const std::string& sentence, int exit_code) {
  std::printf("%s\n", sentence.c_str());
  std::fflush(stdout);
  std::_Exit(exit_code);
}

void ask(const Worker& worker, Store& store) {
  if (!store.set(reset_key(worker.job, worker.id), std::to_string(worker.plan.number)).ok())
    leave("cannot ask for a plan", 98);
}

/// Takes plans from the latest on until one names the worker.
void find_plan(Worker& worker, Store& store) {
  const auto published = store.get(plans_key(worker.job), patience());
  if (!published.ok()) leave(published.status().sentence(), 97);
  bool asked = worker.plan.number > 0;
  for (auto number = static_cast<uint64_t>(std::stoull(published.value()));; ++number) {
    const auto text = store.get(plan_key(worker.job, number), patience());
    const auto plan = text.ok() ? decode_plan(text.value()) : std::nullopt;
    if (!plan) leave(text.ok() ? "not a plan" : text.status().sentence(), 96);
    if (plan->number > worker.plan.number && plan->rank_of(worker.id) >= 0) {
      worker.plan = *plan;
      return;
    }
    const auto removed = store.get(removed_key(worker.job, worker.id), at_once());
    if (removed.ok()) leave(removed.value(), 0);
    if (!asked) ask(worker, store);
    asked = true;
  }
}

void join(Worker& worker, Store& store) {
  for (bool formed = false; !formed;) {
    find_plan(worker, store);
    formed = true;
    const int rank = worker.plan.rank_of(worker.id);
    if (!store.add(wishes_key(worker.own_job(), rank), 1).ok()) leave("no wish", 95);
    for (size_t other = 0; formed && other < worker.plan.workers.size(); ++other)
      formed = store.get(wishes_key(worker.own_job(), static_cast<int>(other)), patience()).ok();
    if (!formed) ask(worker, store);  // the plan is void
  }
  const int own = worker.plan.rank_of(worker.id);
  const bool is_new = worker.plan.number > 1 && worker.plan.workers[static_cast<size_t>(own)].holds_state == 0;
  if (is_new && !store.add(formed_key(worker.own_job(), own), 1).ok()) leave("cannot say that it formed the plan", 92);
  std::printf("plan %d rank %d of %d\n", static_cast<int>(worker.plan.number), worker.plan.rank_of(worker.id),
              static_cast<int>(worker.plan.workers.size()));
}

void wait_for_end(Worker& worker, Store& store) {
  const auto text = store.get(death_key(worker.own_job()), patience());
  const auto verdict = text.ok() ? decode_death(text.value()) : std::nullopt;
  std::printf("%s\n", verdict ? verdict->status().sentence().c_str() : "not a verdict");
  ask(worker, store);
}

void say_goodbye(const Worker& worker, Store& store) {
  if (!store.add(goodbyes_key(worker.own_job(), worker.plan.rank_of(worker.id)), 1).ok()) leave("no goodbye", 94);
}

void read_notice(Worker& worker, Store& store) {
  const auto text = store.get(change_key(worker.job, ++worker.notices), patience());
  const auto notice = text.ok() ? decode_notice(text.value()) : std::nullopt;
  if (!notice) leave("not a notice", 93);
  std::printf("changes %d to plan %d, newcomers %d", static_cast<int>(notice->changes), static_cast<int>(notice->plan),
              static_cast<int>(notice->newcomers));
  if (notice->seconds_to_removal > 0) std::printf(", ended after %g s", notice->seconds_to_removal);
  std::printf("\n");
}

}  // namespace

bool elastic_step(const std::string& word, Store& store) {
  static Worker worker;
  if (word == "join") {
    join(worker, store);
  } else if (word.starts_with("plan=")) {
    static_cast<void>(store.get(plan_key(worker.job, std::stoull(word.substr(5))), patience()));
  } else if (word == "over") {
    wait_for_end(worker, store);
  } else if (word == "reset") {
    say_goodbye(worker, store);
    ask(worker, store);
  } else if (word == "bye") {
    say_goodbye(worker, store);
  } else if (word == "notice") {
    read_notice(worker, store);
  } else {
    return false;
  }
  return true;
}

}  // namespace rueda::test
