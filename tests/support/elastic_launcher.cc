#include "tests/support/elastic_launcher.h"

#include <algorithm>
#include <stdexcept>

#include "runtime/base/random.h"
#include "runtime/store/store_keys.h"

namespace rueda::test {

ElasticLauncher::ElasticLauncher() {
  core::StoreServerOptions options;
  options.job = job_;
  options.key.bytes = core::random_key().value();
  options.key.present = true;
  options.waits = core::StoreWaits::kForJobsToEnd;
  key_.assign(options.key.bytes.begin(), options.key.bytes.end());
  auto server = core::StoreServer::start(options);
  if (!server.ok()) throw std::runtime_error(server.status().sentence());
  store_ = std::move(server).value();
}

RankProcesses::Variables ElasticLauncher::variables(int id, int size) const {
  return {{"RUEDA_ELASTIC", "1"},
          {"RUEDA_WORKER_ID", std::to_string(id)},
          {"RUEDA_RANK", std::to_string(std::min(id, size - 1))},
          {"RUEDA_SIZE", std::to_string(size)},
          {"RUEDA_STORE", "launcher"},
          {"RUEDA_STORE_ADDR", "127.0.0.1:" + std::to_string(store_->port())},
          {"RUEDA_JOB", job_},
          {"RUEDA_LOCAL_RANK", std::to_string(id)},
          {"RUEDA_HOSTNAME", "here"}};
}

std::string ElasticLauncher::plan_job() const { return core::planned_job(job_, last_.number); }

void ElasticLauncher::set(const std::string& key, const std::string& value) {
  const core::Status status = store_->set(key, value);
  if (!status.ok()) throw std::runtime_error(status.sentence());
}

void ElasticLauncher::note_holders() {
  const auto formed = [this](int rank) { return store_->add(core::formed_key(plan_job(), rank), 0).value() > 0; };
  for (size_t rank = 0; rank < last_.workers.size(); ++rank) {
    if (last_.number == 1 || formed(static_cast<int>(rank))) holders_.insert(last_.workers[rank].id);
  }
}

void ElasticLauncher::publish(const std::vector<int>& ids) {
  core::Plan next;
  next.number = last_.number + 1;
  next.why = why_;
  for (const int id : ids) {
    const bool holds = holders_.contains(id);
    if (last_.rank_of(id) < 0) next.changes |= core::kWorkersAdded;
    next.workers.push_back({id, "here", id, static_cast<uint8_t>(holds ? 1 : 0)});
  }
  for (const core::PlannedWorker& worker : last_.workers) {
    if (next.rank_of(worker.id) < 0) next.changes |= core::kWorkersRemoved;
  }
  set(core::plan_key(job_, next.number), encode(next));
  if (!store_->add(core::plans_key(job_), 1).ok()) throw std::runtime_error("the counter of plans");
  if (next.number > 2) {
    store_->remove_all(core::planned_job(job_, next.number - 2) + "/");
    static_cast<void>(store_->remove(core::plan_key(job_, next.number - 2)));
  }
  last_ = std::move(next);
}

void ElasticLauncher::declare_dead(int id, const std::string& cause) {
  note_holders();
  const core::DeathVerdict verdict{0, last_.rank_of(id), "here", 0, cause, core::DeathKind::kDied, id};
  why_ = verdict.status().sentence();
  set(core::death_key(plan_job()), encode(verdict));
}

void ElasticLauncher::end_plan(const std::string& why, core::DeathKind kind) {
  note_holders();
  why_ = why;
  set(core::death_key(plan_job()), encode(core::DeathVerdict{0, 0, "here", 0, why, kind}));
}

void ElasticLauncher::remove(int id) { set(core::removed_key(job_, id), "1"); }

void ElasticLauncher::announce(const core::MembershipNotice& notice) {
  set(core::change_key(job_, ++notices_), encode(notice));
  if (!store_->add(core::changes_key(job_), 1).ok()) throw std::runtime_error("the store cannot count notices");
}

core::PlanRequest ElasticLauncher::await_reset(int id, uint64_t plan) {
  const std::string key = core::reset_key(job_, id);
  std::shared_ptr<Asked>& asked = asked_[id];
  if (asked == nullptr) {
    asked = std::make_shared<Asked>();
    store_->each_time(key, [asked] {
      core::MutexLock lock(asked->mutex);
      ++asked->times;
      asked->changed.notify_all();
    });
  }
  const core::Deadline deadline = patience();
  for (;;) {
    int seen = 0;
    {
      core::MutexLock lock(asked->mutex);
      seen = asked->times;
    }
    const auto last = store_->get(key, core::Deadline::after(std::chrono::nanoseconds(0)));
    const auto request = last.ok() ? core::decode_request(last.value()) : std::nullopt;
    if (request && request->after == plan) return *request;
    core::MutexLock lock(asked->mutex);
    while (asked->times == seen) {
      if (deadline.passed()) throw std::runtime_error("worker " + std::to_string(id) + " did not ask for a plan");
      asked->changed.wait_until(asked->mutex, deadline.when());
    }
  }
}

}  // namespace rueda::test
