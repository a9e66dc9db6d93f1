// The world around launcher/membership. Each process does one step at a time; its news reaches the machine later, in
// the order in which that process sent it, and in any order among processes. Orders are carried out at once, as hvdrun
// does; a process that is stopped dies later. The clock moves only to the machine's next limit, when nothing else can
// happen or, rarely, before, which is a slow machine. Faults stop after a number drawn from the seed; from then on the
// job must come to its end.
#include "tests/sim/membership_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace rueda::sim {

using namespace core::launcher;
using std::chrono::milliseconds;

namespace {

constexpr int kMostRounds = 20000;  // of a job that should be over long before

MembershipRules draw_rules(Random& random, int slots) {
  MembershipRules rules;
  rules.wanted = random.between(1, slots);
  rules.least = random.between(1, rules.wanted);
  if (random.once_in(2)) rules.most = random.between(rules.wanted, slots + 2);
  if (random.once_in(6)) rules.resets = random.between(0, 5);
  rules.discovers = random.once_in(2);
  rules.blacklist.failures = random.between(1, 3);
  if (random.once_in(2)) rules.blacklist.cooldown = BlacklistRules::Cooldown{milliseconds(1000), milliseconds(9000)};
  if (random.once_in(4)) rules.admission = Admission::kDiscovered;
  return rules;
}

}  // namespace

MembershipSimulation::MembershipSimulation(uint64_t seed, Trace trace) : random_(seed), trace_(std::move(trace)) {
  int slots = 0;
  for (int host = 0, hosts = random_.between(1, 3); host < hosts; ++host) {
    hosts_.push_back({fmt::format("h{}", host), random_.between(1, 3)});
    slots += hosts_.back().slots;
  }
  rules_ = draw_rules(random_, slots);
  faults_ = random_.between(0, 8);
  target_ = random_.between(1, 5);
  const bool from_nothing = rules_.discovers && random_.once_in(3);
  machine_.emplace_back(rules_, from_nothing ? std::vector<HostSlots>() : hosts_, seed);
  for (const HostSlots& host : hosts_) {
    if (!from_nothing) reached_.insert(host.name);
  }
  if (from_nothing) machine_[0].listed(hosts_);
}

void MembershipSimulation::say(const std::string& what) const {
  if (trace_) trace_(fmt::format("{} ms: {}", now_.count(), what));
}

void MembershipSimulation::fail(const std::string& violation) {
  if (violation_.empty()) violation_ = violation;
}

bool MembershipSimulation::lives(int64_t id) const {
  const auto found = processes_.find(id);
  return found != processes_.end() && found->second.state != State::kEnded;
}

bool MembershipSimulation::formed(uint64_t plan) const {
  const auto joined = joined_.find(plan);
  return joined != joined_.end() && joined->second.size() == plans_.at(plan).workers.size();
}

std::string MembershipSimulation::run() {
  machine_[0].begin();
  carry_out_orders();
  for (int round = 0; violation_.empty() && !over_; ++round) {
    if (round > kMostRounds) fail("the job does not come to its end");
    std::vector<Action> actions = possible();
    const auto next = machine_[0].next_tick();
    // Goodbye and request come from one call, so no two seconds pass between them.
    const bool early = faults_ > 0 && leaving_.empty() && random_.once_in(60);
    if (next && (actions.empty() || early)) {
      now_ = std::max(now_, *next);
      machine_[0].tick(now_);
    } else if (!actions.empty()) {
      actions[random_.below(actions.size())]();
    } else {
      fail("nothing can happen any more, and the job is not over");
    }
    carry_out_orders();
  }
  return violation_;
}

std::vector<MembershipSimulation::Action> MembershipSimulation::possible() {
  std::vector<Action> actions;
  for (auto& [id, process] : processes_) {
    if (!process.news.empty()) {
      actions.emplace_back([this, &process = process] {
        const auto next = std::move(process.news.front());
        process.news.pop_front();
        machine_[0].tick(now_);
        carry_out_orders();  // a worker that the tick has stopped brings no news
        if (!over_) next();
      });
    }
    if (process.state != State::kEnded) add_process_actions(process, actions);
  }
  add_host_actions(actions);
  if (faults_ > 0 && !actions.empty() && random_.once_in(10)) add_faults(actions);
  return actions;
}

// A listed host is reached some time. One that is listed no more is let go once hvdrun knows of no worker there.
void MembershipSimulation::add_process_actions(Process& process, std::vector<Action>& actions) {
  if (process.killed)
    actions.emplace_back([this, &process] { end_process(process, {"killed by signal 9 (Killed)", 137, false}); });
  if (process.stuck) return;
  const bool is_void = process.plan != 0 && void_.contains(process.plan);
  switch (process.state) {
    case State::kBooting:
      if (!process.slow || !is_awaited(process.id))
        actions.emplace_back([&process] { process.state = State::kSeeking; });
      break;
    case State::kSeeking: {
      const core::Plan* last = plans_.empty() ? nullptr : &plans_.rbegin()->second;
      const bool named = last != nullptr && last->number > process.plan && last->rank_of(process.id) >= 0 &&
                         !void_.contains(last->number);
      if (named || removed_.contains(process.id) || !process.has_asked)
        actions.emplace_back([this, &process] { seek(process); });
      break;
    }
    case State::kJoined:
      if (is_void) {
        actions.emplace_back([this, &process] { leave_void_plan(process); });
      } else if (formed(process.plan)) {
        actions.emplace_back([this, &process] { form(process); });
      }
      break;
    case State::kFormed:
      if (process.told != process.plan) break;
      [[fallthrough]];
    case State::kWorking:
      actions.emplace_back([this, &process, is_void] { is_void ? leave_void_plan(process) : work(process); });
      break;
    case State::kEnded: break;
  }
}

bool MembershipSimulation::is_awaited(int64_t id) const {
  return !plans_.empty() && !void_.contains(plans_.size()) && plans_.rbegin()->second.rank_of(id) >= 0;
}

// What rueda_init and rueda_reset do to find their plan.
void MembershipSimulation::seek(Process& process) {
  const bool removed = removed_.contains(process.id);
  if (!removed && !plans_.empty()) {
    const core::Plan& last = plans_.rbegin()->second;
    if (last.number > process.plan && last.rank_of(process.id) >= 0 && !void_.contains(last.number)) {
      process.plan = last.number;
      process.state = State::kJoined;
      process.has_asked = process.goodbye = false;
      joined_[last.number].insert(process.id);
      process.news.emplace_back([this, id = process.id, plan = last.number] {
        const bool counts = !processes_.at(id).killed && !removed_.contains(id);
        if (counts && !joined_any_ && !left_known_) well_known_ = false;  // what counted as well was none
        joined_any_ = joined_any_ || counts;
        machine_[0].began(id, plan);
      });
      return;
    }
  }
  if (!std::exchange(process.has_asked, true)) {
    process.goodbye = false;
    process.news.emplace_back([this, id = process.id, plan = process.plan] {
      known_ready_.insert(id);
      leaving_.erase(id);
      machine_[0].asked(id, plan);
    });
  }
  if (removed) end_process(process, {"exited with code 0", 0, false});
}

void MembershipSimulation::leave_void_plan(Process& process) {
  process.state = State::kSeeking;
  process.has_asked = false;
}

// What happens between the last wish and the return of rueda_init or rueda_reset: a newcomer waits until hvdrun has its
// word, and then returns, whatever becomes of the plan.
void MembershipSimulation::form(Process& process) {
  const core::Plan& plan = plans_.at(process.plan);
  process.state = State::kFormed;
  const bool is_new = plan.number > 1 && plan.workers[static_cast<size_t>(plan.rank_of(process.id))].holds_state == 0;
  if (!is_new) {
    process.told = plan.number;
    return;
  }
  process.news.emplace_back([this, &process, number = plan.number] {
    machine_[0].formed(process.id, number);
    process.told = number;
    if (void_.contains(number) || process.killed || removed_.contains(process.id)) return;
    known_holders_.insert(process.id);
    held_since_.emplace(process.id, number);
  });
}

// The first step in a world takes the state from rank 0, which may be dead: then nothing happens until the plan is
// void.
void MembershipSimulation::work(Process& process) {
  const core::Plan& plan = plans_.at(process.plan);
  const int64_t root = plan.workers.front().id;
  // Behind a member's goodbye operations fail, and that voids no plan, so the others ask for the next one.
  const auto done = [&](const auto& member) {
    const Process& one = processes_.at(member.id);
    return one.goodbye && one.plan == plan.number;
  };
  if (process.steps < target_ && std::any_of(plan.workers.begin(), plan.workers.end(), done))
    return leave_void_plan(process);
  if (process.state == State::kFormed) {
    if (formed_.insert(plan.number).second) check_state(plan);
    const bool here = process.id == root || (lives(root) && processes_.at(root).has_state);
    if (!process.has_state && !here) return;
    process.state = State::kWorking;
    process.has_state = true;
    return;
  }
  if (noticed_ > plan.number && random_.once_in(3)) {
    process.goodbye = true;
    process.news.emplace_back([this, id = process.id, number = plan.number] {
      leaving_.insert(id);
      machine_[0].left(id, number);
    });
    return leave_void_plan(process);  // it asks for a reset
  }
  const auto dead = [this](const auto& member) { return !lives(member.id); };
  const bool whole = std::none_of(plan.workers.begin(), plan.workers.end(), dead);
  if (whole || process.steps >= target_) ++process.steps;
  if (process.steps > target_) finish(process);
}

void MembershipSimulation::finish(Process& process) {
  process.news.emplace_back([this, id = process.id, plan = process.plan] {
    left_known_ = true;
    machine_[0].left(id, plan);
  });
  process.goodbye = true;
  end_process(process, {"exited with code 0", 0, false});
}

void MembershipSimulation::end_process(Process& process, const WorkerExit& exit) {
  say(fmt::format("worker {} {}", process.id, exit.how));
  process.state = State::kEnded;
  const bool well = exit.exit_code == 0 && process.goodbye;
  process.news.emplace_back([this, id = process.id, exit, well] {
    known_ends_.insert(id);
    leaving_.erase(id);
    // One without an init and with code 0 has ended well, too, if nobody waits for it.
    const bool unseen = exit.exit_code == 0 && !joined_any_ && !processes_.at(id).killed && !removed_.contains(id);
    if (well || unseen) well_known_ = true;
    const size_t deaths = machine_[0].deaths().size();
    const bool seen = processes_.at(id).plan + 2 > plans_.size();  // older plans are forgotten
    machine_[0].exited(id, {exit.how, exit.exit_code, well && seen});
    if (well && machine_[0].deaths().size() > deaths)
      fail(fmt::format("worker {} has shut down, and counts as failed", id));
    const bool by_signal = exit.exit_code == 137 || exit.exit_code == 143;
    if (by_signal && preempted_at_.contains(processes_.at(id).host) && machine_[0].deaths().size() > deaths)
      fail(fmt::format("worker {} counts as failed, but its host was about to go", id));
  });
}

void MembershipSimulation::carry_out_orders() {
  for (auto orders = machine_[0].take_orders(); !orders.empty() && violation_.empty();
       orders = machine_[0].take_orders()) {
    for (const auto& order : orders) {
      if (over_) fail("an order follows the last one");
      std::visit([this](const auto& one) { carry_out(one); }, order);
    }
  }
}

void MembershipSimulation::carry_out(const VoidPlan& order) {
  say(fmt::format("plan {} is void: worker {} {}", order.plan, order.worker, order.cause));
  if (order.plan != plans_.size() || !void_.insert(order.plan).second)
    fail(fmt::format("plan {} is made void, but the last is {}", order.plan, plans_.size()));
  if (order.rank < 0 || plans_.at(order.plan).rank_of(order.worker) != order.rank)
    fail(fmt::format("worker {} has another rank than {} in plan {}", order.worker, order.rank, order.plan));
}

void MembershipSimulation::carry_out(const PublishPlan& order) {
  const core::Plan& plan = order.plan;
  say(fmt::format("plan {} has {} workers", plan.number, plan.workers.size()));
  if (plan.number != plans_.size() + 1) fail(fmt::format("plan {} follows plan {}", plan.number, plans_.size()));
  if (!plans_.empty() && !void_.contains(plans_.size()))
    fail(fmt::format("plan {} is there before plan {} is void", plan.number, plans_.size()));
  const int size = static_cast<int>(plan.workers.size());
  if (size > rules_.most) fail(fmt::format("plan {} has {} workers, more than --max-np", plan.number, size));
  if (size < rules_.least && !well_known_ && !left_known_)
    fail(fmt::format("plan {} has {} workers, fewer than --min-np", plan.number, size));
  if (plan.workers.empty() || (plan.number > 1 && plan.workers[0].holds_state == 0))
    fail(fmt::format("rank 0 of plan {} holds no state", plan.number));
  std::set<std::pair<std::string, int>> seats;
  for (const auto& worker : plan.workers) {
    if (!seats.emplace(worker.host, worker.slot).second)
      fail(fmt::format("slot {} of {} is twice in plan {}", worker.slot, worker.host, plan.number));
    if (known_ends_.contains(worker.id))
      fail(fmt::format("plan {} has worker {}, which has ended", plan.number, worker.id));
    const bool newcomer = plan.number > 1 && plans_.at(1).rank_of(worker.id) < 0;
    if (newcomer && rules_.admission == Admission::kReady && !known_ready_.contains(worker.id))
      fail(fmt::format("plan {} has worker {}, which is not ready", plan.number, worker.id));
    if (newcomer && worker.holds_state == 1 && !known_holders_.contains(worker.id))
      fail(fmt::format("worker {} counts in plan {} as one that has the state, and was in no world", worker.id,
                       plan.number));
  }
  if (rules_.resets && !well_known_ && !left_known_ && plan.number > static_cast<uint64_t>(*rules_.resets) + 1)
    fail(fmt::format("plan {} is more than --reset-limit {} allows", plan.number, *rules_.resets));
  plans_[plan.number] = plan;
}

void MembershipSimulation::carry_out(const StartWorker& order) {
  say(fmt::format("worker {} starts in slot {} of {}", order.worker, order.slot, order.host));
  if (order.worker != static_cast<int64_t>(processes_.size()))
    fail(fmt::format("worker {} is started as number {}", order.worker, processes_.size()));
  const auto has_slot = [&order](const HostSlots& host) { return host.name == order.host && order.slot < host.slots; };
  if (preempted_at_.contains(order.host))
    fail(fmt::format("worker {} starts on a host that is about to go", order.worker));
  if (!reached_.contains(order.host) || std::none_of(hosts_.begin(), hosts_.end(), has_slot))
    fail(fmt::format("worker {} starts in a slot that is not listed, or on a host that is not reached", order.worker));
  for (const auto& [id, process] : processes_) {
    if (process.state != State::kEnded && process.host == order.host && process.slot == order.slot)
      fail(fmt::format("worker {} starts beside worker {} in one slot", order.worker, id));
  }
  Process& process = processes_[order.worker];
  process.id = order.worker;
  process.host = order.host;
  process.slot = order.slot;
  process.has_state = plans_.contains(1) && plans_.at(1).rank_of(order.worker) >= 0;
  if (process.has_state) known_holders_.insert(order.worker);
  process.slow = !process.has_state && random_.once_in(3);
}

void MembershipSimulation::carry_out(const StopWorker& order) {
  processes_.at(order.worker).killed = true;
  const auto removed = removed_at_.find(order.worker);
  const auto preempted = preempted_at_.find(processes_.at(order.worker).host);
  if (preempted != preempted_at_.end() && now_ >= preempted->second + rules_.removal) return;
  const Process& process = processes_.at(order.worker);
  if (process.state == State::kBooting && removed == removed_at_.end() && !evicted_.contains(order.worker))
    fail(fmt::format("worker {} is stopped while it imports", order.worker));
  if (removed != removed_at_.end() && !evicted_.contains(order.worker) && now_ < removed->second + rules_.rejoin)
    fail(fmt::format("worker {} is stopped before its time to leave is over", order.worker));
}

void MembershipSimulation::carry_out(const RemoveWorker& order) {
  say(order.why);
  removed_.insert(order.worker);
  removed_at_.emplace(order.worker, now_);
  if (order.why.empty()) fail(fmt::format("worker {} is removed without a sentence", order.worker));
}

void MembershipSimulation::carry_out(const NotifyMembers& order) {
  say(fmt::format("a notice of changes {} leads to plan {}", order.changes, order.plan));
  noticed_ = order.changes == 0 ? 0 : order.plan;
  if (order.plan != plans_.size() + 1) fail(fmt::format("a notice leads to plan {}", order.plan));
}

void MembershipSimulation::carry_out(const Tell& order) { say(order.sentence); }

void MembershipSimulation::carry_out(const EndJob& order) {
  say(fmt::format("the job ends with code {}: {}", order.exit_code, order.sentence));
  over_ = true;
  check_end(order);
}

}  // namespace rueda::sim
