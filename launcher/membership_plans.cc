// The conclusions after each event. `choose` names who could be in a plan now. If the plan is void, that list becomes
// the next plan, or the job waits for slots, or it ends. If the plan stands, members hear how the list differs from
// theirs. Then free slots get new workers, and last the job may be over.
//
// The order of a plan: hosts as listed, but those with a worker that has held the state for longest before the others;
// within a host workers that hold it for longer first, then by slot. So rank 0 holds the state whenever anybody does. A
// worker whose first plan ended while the state came over may lack it though it counts as one that holds it; it comes
// behind all that had it before.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "launcher/membership.h"

namespace rueda::core::launcher {
namespace {

constexpr int kMostInVain = 100;

template <typename Set>
bool has(const Set& all, int64_t one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

void Membership::settle() {
  if (over_ || !open_) return;
  remove_unlisted();
  if (!begun_) {
    start_first();
  } else if (void_) {
    publish_if_possible();
  } else {
    note_changes();
  }
  if (begun_ && !over_) fill_slots();
  if (begun_ && !over_) end_if_done();
}

/// A worker that has ended well, or has shut down for good, means that the work is done: no new worker has anything to
/// do.
bool Membership::finishing() const {
  return std::any_of(workers_.begin(), workers_.end(), [this](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.ended_well || worker.ended_unseen || (gone(worker) && worker.takes_part());
  });
}

// All of them have the state with which the program begins.
void Membership::start_first() {
  if (hosts_.usable_slots() < rules_.wanted) {
    if (!capacity_by_) capacity_by_ = now_ + rules_.capacity;
    return;
  }
  begun_ = true;
  capacity_by_.reset();
  const auto slots = hosts_.slots();
  const size_t size = std::min(slots.size(), static_cast<size_t>(rules_.most));
  std::vector<const Worker*> members;
  for (size_t rank = 0; rank < size; ++rank) {
    const int64_t id = next_worker_++;
    Worker& worker = workers_[id];
    worker.id = id;
    worker.host = slots[rank].host;
    worker.slot = slots[rank].slot;
    worker.ready = true;
    worker.holds_since = 1;
    members.push_back(&worker);
  }
  publish(members);
  for (size_t rank = 0; rank < size; ++rank) {
    orders_.emplace_back(StartWorker{members[rank]->id, slots[rank].host, slots[rank].slot, static_cast<int>(rank),
                                     static_cast<int>(size)});
  }
}

std::vector<const Membership::Worker*> Membership::choose() const {
  const bool done = finishing();
  std::vector<const Worker*> chosen, elsewhere;
  for (const auto& [id, worker] : workers_) {
    const bool newcomer = plan_.rank_of(id) < 0 && worker.joined == 0;
    if (!worker.takes_part() || !worker.ready || gone(worker) || (done && newcomer)) continue;
    (hosts_.usable(worker.host, worker.slot) ? chosen : elsewhere).push_back(&worker);
  }
  const auto holds = [](const Worker* worker) { return worker->holds_since.has_value(); };
  // Hosts that leave the list keep the state until another one has it.
  if (std::none_of(chosen.begin(), chosen.end(), holds))
    std::copy_if(elsewhere.begin(), elsewhere.end(), std::back_inserter(chosen), holds);
  const auto since = [](const Worker* worker) { return worker->holds_since.value_or(UINT64_MAX); };
  uint64_t longest = UINT64_MAX;
  for (const Worker* worker : chosen) longest = std::min(longest, since(worker));
  std::set<std::string> first;  // the hosts of those that have held it for longest
  for (const Worker* worker : chosen) {
    if (since(worker) == longest) first.insert(worker->host);
  }
  const auto position = [&](const Worker* worker) {
    return std::tuple(!first.contains(worker->host), hosts_.index(worker->host), since(worker), worker->slot,
                      worker->id);
  };
  std::sort(chosen.begin(), chosen.end(), [&](const Worker* a, const Worker* b) { return position(a) < position(b); });
  while (chosen.size() > static_cast<size_t>(rules_.most)) {
    const auto last_new = std::find_if_not(chosen.rbegin(), chosen.rend(), holds);
    chosen.erase(last_new == chosen.rend() ? chosen.end() - 1 : std::next(last_new).base());
  }
  return chosen;
}

/// Returns whether members that have said goodbye may still ask for the next plan.
bool Membership::awaits_requests() const {
  return std::any_of(workers_.begin(), workers_.end(), [this](const auto& entry) {
    const Worker& worker = entry.second;
    return worker.left_at && !gone(worker) && worker.takes_part() && plan_.rank_of(worker.id) >= 0;
  });
}

void Membership::publish_if_possible() {
  if (awaits_requests()) return;
  const auto members = choose();
  const bool done = finishing();
  const auto holds = [](const Worker* worker) { return worker->holds_since.has_value(); };
  if (std::none_of(members.begin(), members.end(), holds)) {
    if (done) return remove_waiting();
    return end(code_of_last_death(),
               fmt::format("no worker is left that holds the job's state: the last plan, {}, ended because {}",
                           plan_.number, why_));
  }
  if (members.size() < static_cast<size_t>(rules_.least) && !done) {
    if (!more_may_come()) {
      return end(code_of_last_death(), fmt::format("{} of at least {} workers (--min-np) are left, because {}",
                                                   members.size(), rules_.least, why_));
    }
    if (!capacity_by_) {
      capacity_by_ = now_ + rules_.capacity;
      orders_.emplace_back(Tell{
          fmt::format("{}; {} of at least {} workers (--min-np) are left, so they wait for more, at most {} s "
                      "(--elastic-timeout)",
                      why_, members.size(), rules_.least, std::chrono::duration<double>(rules_.capacity).count())});
    }
    return;
  }
  if (in_vain_ >= kMostInVain) {
    return end(1, fmt::format("{} plans were given up by their own workers before they were formed; the last, {}, "
                              "ended because {}",
                              in_vain_, plan_.number, why_));
  }
  if (!done && rules_.resets && plan_.number > static_cast<uint64_t>(*rules_.resets)) {
    return end(code_of_last_death(),
               fmt::format("the job was reset more than {} times (--reset-limit); the last plan, {}, ended because {}",
                           *rules_.resets, plan_.number, why_));
  }
  publish(members);
}

void Membership::publish(const std::vector<const Worker*>& members) {
  Plan next;
  next.number = plan_.number + 1;
  next.why = why_;
  for (const Worker* member : members)
    next.workers.push_back(
        {member->id, member->host, member->slot, static_cast<uint8_t>(next.number > 1 && member->holds_since ? 1 : 0)});
  std::vector<int64_t> before, after;
  for (const auto& worker : plan_.workers) before.push_back(worker.id);
  for (const auto& worker : next.workers) after.push_back(worker.id);
  const auto differs = [](const auto& from, const auto& to) {
    return std::any_of(from.begin(), from.end(), [&to](int64_t id) { return !has(to, id); });
  };
  if (plan_.number > 0)
    next.changes = (differs(before, after) ? kWorkersRemoved : 0) | (differs(after, before) ? kWorkersAdded : 0);
  remove_dropped(after);  // first, so that a worker that misses itself in the plan finds out why
  plan_ = std::move(next);
  forget_ended();
  void_ = false;
  capacity_by_.reset();
  noticed_ = after;
  noticed_removal_.reset();
  orders_.emplace_back(PublishPlan{plan_});
  // A worker of the first start that has not asked yet may still import and build, which takes what it takes.
  for (const int64_t id : after) {
    Worker& worker = workers_.at(id);
    if (worker.has_come() || worker.is_coming()) expect_soon(worker);
  }
}

/// Tells the members once of each list that differs from the one they know, and of a change that was undone.
void Membership::note_changes() {
  if (finishing()) return;
  std::vector<int64_t> now, members;
  for (const Worker* worker : choose()) now.push_back(worker->id);
  for (const auto& worker : plan_.workers) members.push_back(worker.id);
  // Too few for a plan: those that the next one would leave out go on meanwhile, until they end or others come.
  if (now.size() < static_cast<size_t>(rules_.least)) now = members;
  const auto differ = [](const auto& a, const auto& b) {
    return std::any_of(a.begin(), a.end(), [&b](int64_t id) { return !has(b, id); });
  };
  const auto removal = removal_of(now);
  if (!differ(now, noticed_) && !differ(noticed_, now) && removal == noticed_removal_) return;
  noticed_ = now;
  noticed_removal_ = removal;
  const uint32_t changes = (differ(members, now) ? kWorkersRemoved : 0) | (differ(now, members) ? kWorkersAdded : 0);
  const auto fresh = [&members](int64_t id) { return !has(members, id); };
  const auto newcomers = static_cast<uint32_t>(std::count_if(now.begin(), now.end(), fresh));
  orders_.emplace_back(NotifyMembers{changes, plan_.number + 1, newcomers, removal ? *removal - now_ : Time(0)});
}

void Membership::start(const std::string& host, int slot, int rank, int size) {
  const int64_t id = next_worker_++;
  Worker& worker = workers_[id];
  worker.id = id;
  worker.host = host;
  worker.slot = slot;
  orders_.emplace_back(StartWorker{id, host, slot, rank, size});
  if (rules_.admission == Admission::kDiscovered) worker.ready = true;
}

void Membership::fill_slots() {
  if (finishing()) return;
  int size = 0;
  std::set<std::pair<std::string, int>> taken;
  for (const auto& [id, worker] : workers_) {
    if (worker.alive) taken.emplace(worker.host, worker.slot);
    if (worker.takes_part()) ++size;
  }
  bool any = false;
  for (const auto& slot : hosts_.slots()) {
    if (size >= rules_.most) break;
    if (slot.from > now_ || taken.contains({slot.host, slot.slot})) continue;
    start(slot.host, slot.slot, size, size + 1);
    ++size;
    any = true;
  }
  if (!any || rules_.admission == Admission::kReady) return;
  void_ ? publish_if_possible() : note_changes();
}

/// Returns whether the job has or may get workers that are not ready yet.
bool Membership::more_may_come() const {
  const auto coming = [](const auto& entry) { return entry.second.takes_part() && !entry.second.ready; };
  if (rules_.discovers || std::any_of(workers_.begin(), workers_.end(), coming)) return true;
  return std::min(hosts_.usable_slots(), rules_.most) >= rules_.least || hosts_.next_cool().has_value();
}

/// A worker that was put off may have joined an earlier plan. While the present one stands it is in none, and with the
/// work done no other one comes.
void Membership::end_if_done() {
  const auto works = [this](const auto& entry) {
    const bool was_member = void_ && entry.second.joined != 0;
    return entry.second.takes_part() && (was_member || plan_.rank_of(entry.first) >= 0);
  };
  if (finishing() && std::none_of(workers_.begin(), workers_.end(), works)) end(0, "");
}

void Membership::end(int exit_code, std::string sentence) {
  over_ = true;
  capacity_by_.reset();
  for (auto& entry : workers_) entry.second.rejoin_by.reset();
  orders_.emplace_back(EndJob{exit_code, std::move(sentence)});
}

std::vector<int64_t> Membership::awaited() const {
  std::vector<int64_t> all;
  for (const auto& member : plan_.workers) {
    const auto worker = workers_.find(member.id);
    if (worker != workers_.end() && worker->second.takes_part() && worker->second.joined < plan_.number)
      all.push_back(member.id);
  }
  return all;
}

}  // namespace rueda::core::launcher
