// What befalls the simulated job of membership_simulation.cc: workers fail and hang, hosts are lost, and the list of
// hosts changes. Hosts are reached, and let go, later than the list says, as hvdrun does it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tests/sim/membership_simulation.h"

namespace rueda::sim {

using namespace core::launcher;

void MembershipSimulation::add_host_actions(std::vector<Action>& actions) {
  for (const HostSlots& host : hosts_) {
    if (!rules_.discovers || reached_.contains(host.name)) continue;
    actions.emplace_back([this, name = host.name] {
      say(fmt::format("host {} is reached", name));
      reached_.insert(name);
      preempted_at_.erase(name);
      machine_[0].tick(now_);
      machine_[0].reached(name);
    });
  }
  const auto running = machine_[0].running();
  for (const std::string& name : reached_) {
    const auto here = [this, &name](int64_t id) { return processes_.at(id).host == name; };
    const bool stays = is_listed(name) && !preempted_at_.contains(name);
    if (stays || std::any_of(running.begin(), running.end(), here)) continue;
    actions.emplace_back([this, gone = name] {
      say(fmt::format("host {} is let go", gone));
      reached_.erase(gone);
      machine_[0].tick(now_);
      machine_[0].lost(gone, "is no longer listed");
    });
  }
}

bool MembershipSimulation::is_listed(const std::string& name) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&name](const HostSlots& host) { return host.name == name; });
}

void MembershipSimulation::add_faults(std::vector<Action>& actions) {
  std::vector<int64_t> living;
  for (const auto& [id, process] : processes_) {
    if (process.state != State::kEnded) living.push_back(id);
  }
  if (!living.empty()) {
    Process& one = processes_.at(random_.pick(living));
    actions.emplace_back([this, &one] { end_process(one, {"killed by signal 11", 139, false}); });
    actions.emplace_back([this, &one] { end_process(one, {"exited with code 0", 0, false}); });
    actions.emplace_back([this, &one] {
      say(fmt::format("worker {} hangs", one.id));
      // One that hangs in a world is found by others, not by the membership; here it hangs on its way into one.
      one.stuck = one.state == State::kSeeking && one.has_asked;
    });
    actions.emplace_back([this, &one] {
      evicted_.insert(one.id);
      machine_[0].evict(one.id, "has been stopped");
    });
    actions.emplace_back([this, &one] { lose_host(one.host); });
    actions.emplace_back([this, &one] { preempt_host(one.host); });
  }
  if (rules_.discovers) actions.emplace_back([this] { change_list(); });
  for (size_t i = 1; i <= (living.empty() ? 0u : 6u) + (rules_.discovers ? 1u : 0u); ++i) {
    Action& fault = actions[actions.size() - i];
    fault = [this, then = std::move(fault)] {
      --faults_;
      then();
    };
  }
}

void MembershipSimulation::lose_host(const std::string& host) {
  say(fmt::format("host {} is lost", host));
  for (auto& [id, process] : processes_) {
    if (process.host != host) continue;
    known_ends_.insert(id);
    leaving_.erase(id);
    process.news.clear();
    process.state = State::kEnded;
  }
  reached_.erase(host);
  machine_[0].lost(host, "has been silent for 5 s");
}

// A scheduler that takes a host away may end the host's workers itself.
void MembershipSimulation::preempt_host(const std::string& host) {
  say(fmt::format("host {} is about to go", host));
  preempted_at_.emplace(host, now_);
  machine_[0].preempted(host);
  if (!random_.once_in(3)) return;
  for (auto& [id, process] : processes_) {
    if (process.host == host && process.state != State::kEnded)
      end_process(process, {"killed by signal 15 (Terminated)", 143, false});
  }
}

void MembershipSimulation::change_list() {
  if (!hosts_.empty() && random_.once_in(2)) {
    const auto one = hosts_.begin() + static_cast<ptrdiff_t>(random_.below(hosts_.size()));
    dropped_.push_back(*one);
    hosts_.erase(one);
  } else if (!dropped_.empty() && random_.once_in(2)) {
    hosts_.insert(hosts_.begin() + static_cast<ptrdiff_t>(random_.below(hosts_.size() + 1)), dropped_.back());
    dropped_.pop_back();
  } else if (!hosts_.empty() && random_.once_in(2)) {
    hosts_[random_.below(hosts_.size())].slots = random_.between(1, 4);
  } else if (HostSlots fresh{fmt::format("n{}", random_.below(1000)), random_.between(1, 2)}; !is_listed(fresh.name)) {
    hosts_.push_back(std::move(fresh));
  }
  say("the list of hosts changes");
  machine_[0].listed(hosts_);
}

}  // namespace rueda::sim
