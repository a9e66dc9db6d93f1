// Everything here is written in an order that workers rely on. A plan's watches exist before the plan, the plan before
// the counter that names it, and the verdict about a plan before the plan that follows.

#include "launcher/elastic_store.h"

#include <utility>

#include "runtime/store/store_keys.h"

namespace rueda::core::launcher {
namespace {

constexpr uint64_t kKept = 2;  // plans
// Verdicts and notices, for workers that are late by some plans. These may write a key of a plan whose keys are
// removed.
constexpr uint64_t kKeptForLate = 100;

Deadline at_once() { return Deadline::at(SteadyClock::now()); }

}  // namespace

ElasticStore::ElasticStore(JobStore& store, Events events) : store_(store), events_(std::move(events)) {}

std::string ElasticStore::job_of(uint64_t plan) const { return planned_job(store_.job(), plan); }

void ElasticStore::watch(int64_t worker) {
  store_.server().each_time(reset_key(store_.job(), worker), [asked = events_.asked, worker] { asked(worker); });
}

void ElasticStore::forget(int64_t worker) {
  StoreServer& server = store_.server();
  const std::string request = reset_key(store_.job(), worker);
  server.forget(request);
  for (const std::string& key : {request, removed_key(store_.job(), worker)}) static_cast<void>(server.remove(key));
}

Status ElasticStore::publish(const Plan& plan) {
  StoreServer& server = store_.server();
  const std::string job = job_of(plan.number);
  for (size_t rank = 0; rank < plan.workers.size(); ++rank) {
    const int64_t worker = plan.workers[rank].id;
    const auto number = static_cast<int>(rank);
    server.each_time(wishes_key(job, number),
                     [began = events_.began, worker, plan = plan.number] { began(worker, plan); });
    server.each_time(formed_key(job, number),
                     [formed = events_.formed, worker, plan = plan.number] { formed(worker, plan); });
    server.each_time(goodbyes_key(job, number),
                     [left = events_.left, worker, plan = plan.number] { left(worker, plan); });
  }
  server.when_set(evidence_key(job), [evidence = events_.evidence, plan = plan.number] { evidence(plan); });
  RUEDA_RETURN_IF_ERROR(server.set(plan_key(store_.job(), plan.number), encode(plan)));
  const auto counted = server.add(plans_key(store_.job()), 1);
  if (!counted.ok()) return counted.status();
  before_ = std::exchange(last_, plan);
  if (plan.number <= kKept) return {};
  const std::string old = job_of(plan.number - kKept) + "/";
  server.remove_all(old);
  server.forget_all(old);
  if (plan.number > kKeptForLate) {
    const std::string late = job_of(plan.number - kKeptForLate);
    server.remove_all(late + "/");  // apart from the verdict
    static_cast<void>(server.remove(death_key(late)));
  }
  return server.remove(plan_key(store_.job(), plan.number - kKept));
}

Status ElasticStore::declare_void(uint64_t plan, const DeathVerdict& verdict) {
  return store_.server().set(death_key(job_of(plan)), encode(verdict));
}

Status ElasticStore::remove(int64_t worker, const std::string& why) {
  return store_.server().set(removed_key(store_.job(), worker), why);
}

Status ElasticStore::notify(const MembershipNotice& notice) {
  StoreServer& server = store_.server();
  RUEDA_RETURN_IF_ERROR(server.set(change_key(store_.job(), ++notices_), encode(notice)));
  const auto counted = server.add(changes_key(store_.job()), 1);
  if (!counted.ok()) return counted.status();
  if (notices_ <= static_cast<int64_t>(kKeptForLate)) return {};
  return server.remove(change_key(store_.job(), notices_ - static_cast<int64_t>(kKeptForLate)));
}

Status ElasticStore::end(const std::string& why) {
  DeathVerdict verdict;
  verdict.cause = why;
  verdict.kind = DeathKind::kOver;
  return store_.server().set(death_key(store_.job()), encode(verdict));
}

std::optional<PlanRequest> ElasticStore::request(int64_t worker) {
  const auto text = store_.server().get(reset_key(store_.job(), worker), at_once());
  return text.ok() ? decode_request(text.value()) : std::nullopt;
}

std::optional<DeathVerdict> ElasticStore::evidence(uint64_t plan) {
  const auto text = store_.server().get(evidence_key(job_of(plan)), at_once());
  return text.ok() ? decode_death(text.value()) : std::nullopt;
}

uint64_t ElasticStore::last_joined(int64_t worker) {
  for (const Plan* plan : {&last_, &before_}) {
    const int rank = plan->rank_of(worker);
    if (rank >= 0 && read_counter(store_.server(), wishes_key(job_of(plan->number), rank)) > 0) return plan->number;
  }
  return 0;
}

bool ElasticStore::said_goodbye(int64_t worker, uint64_t plan) {
  const Plan& one = plan == last_.number ? last_ : before_;
  const int rank = one.rank_of(worker);
  const std::string job = job_of(plan);
  if (rank < 0 || !is_settled(store_.server(), job, rank, goodbyes_key(job, rank))) return false;
  // A worker that was removed while its plan formed has withdrawn its wish, which is not a goodbye.
  if (read_counter(store_.server(), goodbyes_key(job, rank)) == 0) return false;
  const auto asked = request(worker);
  return !asked || asked->after < plan;
}

}  // namespace rueda::core::launcher
