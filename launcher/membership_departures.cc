// How workers leave the job, or a plan, while it goes on. The members hear that a slot or a host is gone from the job.
// With the next plan its worker is removed and ends by itself. A worker that does not is ended:
//
//   removed                       --rejoin-timeout later -> ended
//   its host is about to go       --removal-timeout later -> ended, in whatever plan it is
//
// None of these ends is a failure. A newcomer that does not come in time is not ended, it joins a later plan.

#include <fmt/format.h>

#include <algorithm>

#include "launcher/membership.h"

namespace rueda::core::launcher {

/// A newcomer whose slot is gone before it was in a plan is removed at once: nobody has to be asked.
void Membership::remove_unlisted() {
  for (auto& [id, worker] : workers_) {
    if (!worker.takes_part() || worker.left_at || plan_.rank_of(id) >= 0 || hosts_.usable(worker.host, worker.slot))
      continue;
    remove(worker);
  }
}

/// The work is done, and workers that wait for a plan cannot have one any more.
void Membership::remove_waiting() {
  for (auto& entry : workers_) {
    if (entry.second.takes_part() && entry.second.has_asked && !entry.second.left_at) remove(entry.second);
  }
}

/// Removes the members of the plan that are not in the next one. Newcomers that were put off stay.
void Membership::remove_dropped(const std::vector<int64_t>& next) {
  for (auto& [id, worker] : workers_) {
    const bool dropped = plan_.rank_of(id) >= 0 && std::find(next.begin(), next.end(), id) == next.end();
    const bool put_off = !worker.ready && hosts_.usable(worker.host, worker.slot);
    if (dropped && !put_off && worker.takes_part() && !gone(worker)) remove(worker);
  }
}

void Membership::remove(Worker& worker) {
  worker.removed = true;
  worker.rejoin_by.reset();
  worker.end_by = now_ + rules_.rejoin;
  const bool done = finishing();
  const std::string why = done ? "the work is done"
                               : fmt::format("its slot {} of host {} is no longer the job's", worker.slot, worker.host);
  orders_.emplace_back(RemoveWorker{worker.id, fmt::format("worker {} is in no further plan: {}", worker.id, why)});
}

/// Takes newcomers that have not come in time for not ready. Returns one of them, if there are any. What they load
/// takes what it takes, but the members would give up in the end.
std::optional<int64_t> Membership::put_off_late() {
  std::optional<int64_t> late;
  for (auto& [id, worker] : workers_) {
    if (!worker.is_coming() || !worker.rejoin_by || now_ < *worker.rejoin_by) continue;
    worker.rejoin_by.reset();
    worker.ready = false;
    worker.put_off = plan_.number;
    orders_.emplace_back(Tell{fmt::format("worker {} (host {}) {}: the others go on, and it joins once it does", id,
                                          worker.host, late_cause())});
    late = late.value_or(id);
  }
  return late;
}

/// Voids the plan of a worker that was put off, unless another member's end has done so.
void Membership::go_on_without(int64_t worker) {
  if (void_ || plan_.rank_of(worker) < 0) return;
  void_plan(workers_.at(worker), VoidPlan::Ground::kRequest, late_cause());
}

std::string Membership::late_cause() const {
  return fmt::format("did not call init within {} s (--rejoin-timeout)",
                     std::chrono::duration<double>(rules_.rejoin).count());
}

/// A removed worker ends by itself; one that does not in time is ended.
void Membership::stop_overdue() {
  for (auto& [id, worker] : workers_) {
    if (!worker.end_by || now_ < *worker.end_by) continue;
    worker.end_by.reset();
    if (!worker.alive || worker.stopping) continue;
    worker.stopping = true;
    const auto seconds = std::chrono::duration<double>(rules_.rejoin).count();
    orders_.emplace_back(
        Tell{fmt::format("worker {} (host {}) is ended: it was removed and still runs {} s later "
                         "(--rejoin-timeout)",
                         id, worker.host, seconds)});
    orders_.emplace_back(StopWorker{id});
  }
}

/// Forgets workers that have ended, except those that ended well: these make the job succeed.
void Membership::forget_ended() {
  std::erase_if(workers_, [this](const auto& entry) {
    const Worker& worker = entry.second;
    return !worker.alive && !worker.ended_well && !worker.ended_unseen && plan_.rank_of(entry.first) < 0;
  });
}

void Membership::preempted(const std::string& host) {
  if (over_ || !hosts_.preempt(host)) return;
  leave_by_[host] = now_ + rules_.removal;
  orders_.emplace_back(Tell{
      fmt::format("host {} is about to go: its workers leave with the next plan, and those that still run after {} "
                  "s are ended (--removal-timeout)",
                  host, std::chrono::duration<double>(rules_.removal).count())});
  settle();
}

/// Voids the plan of a worker that has ended with its host. The notice came before, so this does not count as a
/// failure.
void Membership::depart(const Worker& worker, const std::string& cause) {
  if (over_ || void_ || plan_.rank_of(worker.id) < 0) return;
  void_plan(worker, VoidPlan::Ground::kRequest, fmt::format("left with its host, which is about to go: {}", cause));
}

/// Ends the workers of hosts whose time is over.
void Membership::stop_preempted() {
  for (auto at = leave_by_.begin(); at != leave_by_.end();) {
    if (now_ < at->second) {
      ++at;
      continue;
    }
    for (auto& [id, worker] : workers_) {
      if (worker.host != at->first || !worker.alive || worker.stopping) continue;
      worker.stopping = true;
      worker.rejoin_by.reset();
      depart(worker, fmt::format("it still ran {} s after the notice (--removal-timeout)",
                                 std::chrono::duration<double>(rules_.removal).count()));
      orders_.emplace_back(StopWorker{id});
    }
    at = leave_by_.erase(at);
  }
}

/// Returns when the first of the members is ended that `next` lacks, if any is.
std::optional<Membership::Time> Membership::removal_of(const std::vector<int64_t>& next) const {
  std::optional<Time> first;
  for (const PlannedWorker& member : plan_.workers) {
    const auto by = leave_by_.find(member.host);
    if (by == leave_by_.end() || std::find(next.begin(), next.end(), member.id) != next.end()) continue;
    if (!first || by->second < *first) first = by->second;
  }
  return first;
}

}  // namespace rueda::core::launcher
