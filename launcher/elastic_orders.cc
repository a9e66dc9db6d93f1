// How an elastic job's conductor carries out what membership_ decides. The order of orders is kept: a verdict about a
// plan is in the store before the plan that follows it, and a worker's removal before the plan that it is not in.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <variant>

#include "launcher/elastic_conductor.h"
#include "launcher/environment.h"
#include "launcher/job_limits.h"
#include "launcher/start_order.h"
#include "launcher/store_route.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

using std::chrono::milliseconds;

void ElasticJob::tell(const std::function<void()>& event) {
  membership_.tick(std::chrono::duration_cast<milliseconds>(SteadyClock::now() - began_));
  event();
  obey();
}

void ElasticJob::obey() {
  for (auto orders = membership_.take_orders(); !orders.empty(); orders = membership_.take_orders()) {
    for (const auto& order : orders) std::visit([this](const auto& one) { obey(one); }, order);
  }
  if (discovery_) discovery_->need(membership_.waits());
  const auto next = membership_.next_tick();
  if (!next) return tick_timer_.cancel();
  const auto now = std::chrono::duration_cast<milliseconds>(SteadyClock::now() - began_);
  tick_timer_.start(std::max(*next - now, milliseconds(0)) + milliseconds(1), [this] { tell([] {}); });
}

void ElasticJob::complain(const Status& status) {
  if (!status.ok()) output_.say(status.sentence());
}

void ElasticJob::obey(const VoidPlan& order) {
  const WorkerRecord& record = records_.at(order.worker);
  DeathVerdict verdict;
  verdict.rank = order.rank;
  verdict.host = record.host_name;
  verdict.pid = record.pid;
  verdict.cause = order.cause;
  verdict.worker = order.worker;
  if (order.ground != VoidPlan::Ground::kDeath) {
    verdict.kind = order.ground == VoidPlan::Ground::kGoodbye ? DeathKind::kLeft : DeathKind::kOver;
    verdict.cause = fmt::format("{} {}", name_of(order.worker), order.cause);
  }
  complain(plans_->declare_void(order.plan, verdict));
}

void ElasticJob::obey(const PublishPlan& order) {
  complain(plans_->publish(order.plan));
  if (order.plan.number == 1) {
    first_ = order.plan.workers.size();
    if (keeper_) watch_start();
  }
  const bool told = order.plan.number > 1 || arguments_.verbose;
  if (told) {
    const std::string why = order.plan.why.empty() ? "" : ", because " + order.plan.why;
    output_.say(fmt::format("plan {} has {} worker{}{}", order.plan.number, order.plan.workers.size(),
                            order.plan.workers.size() == 1 ? "" : "s", why));
  }
}

/// A worker's position at its start, among the workers of the present plan. A worker that starts later is not in the
/// plan yet, so it is counted as well. Members that have ended are not counted.
Placement ElasticJob::placement_of(const StartWorker& order) const {
  Placement found{order.rank, order.size, order.host, order.slot, 1, 0, 1};
  const std::vector<int64_t> running = membership_.running();
  bool behind = false;
  for (const PlannedWorker& worker : membership_.plan().workers) {
    if (std::find(running.begin(), running.end(), worker.id) == running.end()) continue;
    const bool same_host = worker.host == order.host, same_slot = worker.slot == order.slot;
    behind = behind || same_host;
    if (same_host && !same_slot) ++found.local_size;
    if (same_host || !same_slot) continue;
    ++found.cross_size;
    if (!behind) ++found.cross_rank;
  }
  found.local_size = std::min(found.local_size, found.size);  // one that is about to end may run still
  return found;
}

/// The host of the present rank 0, as this worker reaches it; empty if the user has named one.
std::string ElasticJob::master_for(const StartWorker& order) const {
  if (process_environment()("MASTER_ADDR")) return {};
  std::vector<std::string> hosts;
  const auto add = [&hosts](const std::string& host) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  };
  for (const PlannedWorker& worker : membership_.plan().workers) add(worker.host);
  add(order.host);
  return master_of(hosts);
}

void ElasticJob::obey(const StartWorker& order) {
  WorkerRecord& record = records_[order.worker];
  record.host_name = order.host;
  while (record.host < hosts_.count() && hosts_.host(record.host).name() != order.host) ++record.host;
  complain(output_.grow(static_cast<int>(order.worker) + 1));
  plans_->watch(order.worker);
  const char* const admit = plan_.elastic->admission == Admission::kReady ? "ready" : "discovered";
  const RankOrder rank{
      static_cast<int>(order.worker),
      worker_environment({order.worker, placement_of(order), master_for(order), plan_.elastic->rejoin, admit})};
  hosts_.send(record.host, {MessageType::kStartOne, rank.rank, 0, encode(rank)});
}

void ElasticJob::obey(const StopWorker& order) {
  const milliseconds grace = stopped_too_long_.contains(order.worker) ? milliseconds(0) : arguments_.grace;
  hosts_.send(records_.at(order.worker).host,
              {MessageType::kEndOne, static_cast<int>(order.worker), grace.count(), {}});
}

void ElasticJob::obey(const RemoveWorker& order) {
  complain(plans_->remove(order.worker, order.why));
  output_.say(order.why);
}

void ElasticJob::obey(const NotifyMembers& order) {
  MembershipNotice notice;
  notice.plan = order.plan;
  notice.changes = order.changes;
  notice.newcomers = order.newcomers;
  notice.seconds_to_removal = std::chrono::duration<double>(order.removal).count();
  complain(plans_->notify(notice));
}

void ElasticJob::obey(const Tell& order) { output_.say(order.sentence); }

// A job that failed tells its workers first, so that operations and resets raise.
void ElasticJob::obey(const EndJob& order) {
  ended_ = true;
  outcome_.exit_code = order.exit_code;
  outcome_.sentence = order.sentence;
  start_timer_.cancel();
  if (order.exit_code == 0) return end_workers();
  raising_ = true;
  complain(plans_->end(order.sentence.empty() ? "the job was ended" : "the job has failed: " + order.sentence));
  end_timer_.start(kTimeToRaise, [this] { end_workers(); });
  end_if_raised();
}

}  // namespace rueda::core::launcher
