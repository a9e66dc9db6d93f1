// What the machine makes of each event. An event changes what is known of a worker or a host, and may void the plan;
// then `settle` (membership_plans.cc) draws all conclusions, in one order:
//
//   event -> worker, hosts -> void_plan? -> settle: publish, notify, start, end
//
// A worker's request for a plan that is void already, its second death, an answer to an old plan: all events that come
// late change nothing, so the order in which the messages of different processes arrive does not matter.

#include "launcher/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rueda::core::launcher {
namespace {

// Between a worker's goodbye and its request, if its program shuts down and calls `init` again.
constexpr Membership::Time kTimeToAsk{2000};

/// Returns whether a process may end so because its machine is being shut down.
bool ends_with_host(const WorkerExit& exit) {
  constexpr int kTerminated = 143, kKilled = 137;  // as a shell shows SIGTERM and SIGKILL
  return exit.exit_code == 0 || exit.exit_code == kTerminated || exit.exit_code == kKilled;
}

}  // namespace

/// Returns whether it has shut down for good: a worker that leaves one plan for the next would have asked by now.
bool Membership::gone(const Worker& worker) const { return worker.left_at && now_ >= *worker.left_at + kTimeToAsk; }

Membership::Membership(MembershipRules rules, const std::vector<HostSlots>& hosts, uint64_t seed)
    : rules_(rules), hosts_(hosts, rules.blacklist, seed) {}

Membership::Worker* Membership::find(int64_t worker) {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : &found->second;
}

void Membership::begin() {
  open_ = true;
  settle();
}

void Membership::tick(Time now) {
  now_ = std::max(now_, now);
  if (over_) return;
  hosts_.cool(now_);
  if (capacity_by_ && now_ >= *capacity_by_) {
    if (finishing()) return end(0, "");  // --min-np no longer applies, and those that still run have had their time
    const auto seconds = std::chrono::duration<double>(rules_.capacity).count();
    return end(code_of_last_death(),
               fmt::format("{} of at least {} workers (--min-np) could run within {} s (--elastic-timeout){}",
                           choose().size(), begun_ ? rules_.least : rules_.wanted, seconds,
                           why_.empty() ? "" : fmt::format("; the last plan ended because {}", why_)));
  }
  stop_overdue();
  stop_preempted();
  const auto late = put_off_late();  // before the plans that follow evictions
  for (auto& [id, worker] : workers_) {
    if (!worker.rejoin_by || now_ < *worker.rejoin_by) continue;
    worker.rejoin_by.reset();
    if (worker.left_at) {  // it may do what it likes after its goodbye, but the others wait for it
      void_plan(worker, VoidPlan::Ground::kRequest, "has shut down");
      continue;
    }
    const auto seconds = std::chrono::duration<double>(rules_.rejoin).count();
    evict(id, fmt::format("did not join plan {} within {} s (--rejoin-timeout)", plan_.number, seconds));
  }
  if (late) go_on_without(*late);
  settle();
}

std::optional<Membership::Time> Membership::next_tick() const {
  if (over_) return {};
  std::optional<Time> next = hosts_.next_cool();
  const auto earlier = [&next](std::optional<Time> at) {
    if (at && (!next || *at < *next)) next = at;
  };
  earlier(capacity_by_);
  for (const auto& entry : leave_by_) earlier(entry.second);
  for (const auto& [id, worker] : workers_) {
    earlier(worker.rejoin_by);
    if (worker.alive) earlier(worker.end_by);
    if (worker.left_at && worker.takes_part() && !gone(worker)) earlier(*worker.left_at + kTimeToAsk);
  }
  for (const auto& slot : hosts_.slots()) {
    if (slot.from > now_) earlier(slot.from);
  }
  return next;
}

void Membership::began(int64_t id, uint64_t plan) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->alive || plan > plan_.number) return;
  if (plan != worker->put_off) worker->joined = std::max(worker->joined, plan);
  last_begun_ = std::max(last_begun_, worker->joined);
  worker->left_at.reset();
  if (!worker->takes_part()) return;
  any_joined_ = true;
  if (plan == plan_.number) worker->rejoin_by.reset();
  expect_soon(*worker);
  fail_unseen();
  settle();
}

/// A word about another plan does not count, nor one about a void plan: that may have ended before the newcomer met
/// those that hold the state.
void Membership::formed(int64_t id, uint64_t plan) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->takes_part() || void_ || plan != plan_.number || plan_.rank_of(id) < 0) return;
  if (!worker->holds_since) worker->holds_since = plan + 1;
  settle();
}

void Membership::asked(int64_t id, uint64_t plan, VoidPlan::Ground how) {
  Worker* const worker = find(id);
  if (worker == nullptr) return;
  worker->left_at.reset();
  if (!worker->takes_part()) return;
  if (worker->is_coming()) worker->rejoin_by.reset();  // from now on it has the time of a worker whose program runs
  worker->ready = worker->has_asked = true;
  if (!void_ && plan == plan_.number && plan_.rank_of(id) >= 0) void_plan(*worker, how, "asked for a reset");
  expect_soon(*worker);
  settle();
}

/// A worker that has not joined the plan it is in is on its way: the members wait for it for so long.
void Membership::expect_soon(Worker& worker) {
  const bool awaited = !void_ && plan_.rank_of(worker.id) >= 0 && worker.joined < plan_.number;
  if (awaited && !worker.rejoin_by) worker.rejoin_by = now_ + rules_.rejoin;
}

void Membership::left(int64_t id, uint64_t plan) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->alive || plan != worker->joined) return;
  worker->left_at = now_;  // also of one that was removed meanwhile: its work may be done
  if (worker->takes_part()) settle();
}

void Membership::exited(int64_t id, const WorkerExit& exit) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->alive) return;
  const bool counts = worker->takes_part();
  worker->alive = false;
  worker->rejoin_by.reset();
  const bool unseen = exit.exit_code == 0 && worker->joined == 0;
  // It may have left in an old plan, whose keys in the store are gone by now.
  const bool goodbye = exit.goodbye || worker->left_at.has_value();
  if (exit.exit_code == 0 && goodbye) {  // even if it was removed or stopped meanwhile
    worker->ended_well = true;
    if (counts && !over_) finished_.push_back({id, worker->joined});
    const bool awaited = !void_ && plan_.rank_of(id) >= 0 && worker->joined < plan_.number;
    if (awaited) void_plan(*worker, VoidPlan::Ground::kRequest, "has shut down");
  } else if (counts && hosts_.preempted(worker->host) && ends_with_host(exit) && !unseen) {
    depart(*worker, exit.how);
  } else if (counts && exit.exit_code != 0) {
    fail(*worker, exit.how, exit.exit_code);
  } else if (counts && !unseen) {
    fail(*worker, exit.how + " without shutdown", 1);
  } else if (counts) {
    worker->ended_unseen = true;
    fail_unseen();
  }
  settle();
}

/// A worker that ended with code 0 and has joined no plan fails once another one has joined one.
void Membership::fail_unseen() {
  if (!any_joined_) return;
  for (auto& [id, worker] : workers_) {
    if (!std::exchange(worker.ended_unseen, false)) continue;
    const char* const how = "exited with code 0 before it joined the job";
    hosts_.preempted(worker.host) ? depart(worker, how) : fail(worker, how, 1);
  }
}

void Membership::not_started(int64_t id, int exit_code, const std::string& why) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->alive) return;
  worker->alive = false;
  if (!worker->stopping && !worker->removed) fail(*worker, fmt::format("was not started: {}", why), exit_code);
  // A program that does not exist is not a worker's failure: each further start would fail alike.
  if (exit_code == 127 && !any_joined_) return end(exit_code, why);
  settle();
}

void Membership::evict(int64_t id, const std::string& cause) {
  Worker* const worker = find(id);
  if (worker == nullptr || !worker->takes_part() || over_) return;
  worker->stopping = true;
  worker->rejoin_by.reset();
  orders_.emplace_back(StopWorker{id});
  fail(*worker, cause, 1);
  settle();
}

void Membership::lost(const std::string& host, const std::string& why) {
  hosts_.lose(host);
  for (auto& [id, worker] : workers_) {
    if (worker.host != host || !worker.alive) continue;
    const bool counts = worker.takes_part();
    worker.alive = false;
    worker.rejoin_by.reset();
    if (!counts) continue;
    const std::string how = fmt::format("lost with its host, which {}", why);
    hosts_.preempted(host) ? depart(worker, how) : fail(worker, how, 1);
  }
  settle();
}

void Membership::reached(const std::string& host) {
  hosts_.reached(host);
  leave_by_.erase(host);
  settle();
}

void Membership::listed(const std::vector<HostSlots>& hosts) {
  hosts_.list(hosts);
  settle();
}

void Membership::end_by_user(int exit_code) {
  if (!over_) end(exit_code, "");
}

/// Notes a death, judges the host, and voids the plan if the worker was in it.
void Membership::fail(Worker& worker, const std::string& cause, int exit_code) {
  if (over_) return;  // it ended because the job did
  const bool member = plan_.rank_of(worker.id) >= 0;
  deaths_.push_back({worker.id, worker.host, member ? plan_.number : 0, cause, exit_code});
  if (const std::string sentence = hosts_.charge(worker.host, worker.slot, now_); !sentence.empty())
    orders_.emplace_back(Tell{sentence});
  if (member && !void_) void_plan(worker, VoidPlan::Ground::kDeath, cause);
}

void Membership::void_plan(const Worker& worker, VoidPlan::Ground ground, const std::string& cause) {
  const bool formed = was_formed();
  in_vain_ = formed ? 0 : in_vain_ + (ground == VoidPlan::Ground::kDeath ? 0 : 1);
  for (auto& entry : workers_) entry.second.rejoin_by.reset();
  void_ = true;
  const char* const failed = ground == VoidPlan::Ground::kDeath ? " failed:" : "";
  why_ = fmt::format("worker {} (host {}){} {}", worker.id, worker.host, failed, cause);
  noticed_.clear();
  noticed_removal_.reset();
  orders_.emplace_back(VoidPlan{plan_.number, plan_.rank_of(worker.id), worker.id, ground, cause});
}

bool Membership::was_formed() const {
  return std::all_of(plan_.workers.begin(), plan_.workers.end(),
                     [this](const PlannedWorker& member) { return workers_.at(member.id).joined == plan_.number; });
}

std::vector<MembershipOrder> Membership::take_orders() { return std::exchange(orders_, {}); }

std::vector<int64_t> Membership::away() const {
  std::vector<int64_t> all = running();
  std::erase_if(
      all, [this](int64_t id) { return !void_ && plan_.rank_of(id) >= 0 && workers_.at(id).joined == plan_.number; });
  return all;
}

bool Membership::has_come(int64_t id) const {
  const auto found = workers_.find(id);
  return found != workers_.end() && found->second.alive && found->second.has_come();
}

std::vector<int64_t> Membership::running() const {
  std::vector<int64_t> all;
  for (const auto& [id, worker] : workers_) {
    if (worker.alive) all.push_back(id);
  }
  return all;
}

}  // namespace rueda::core::launcher
