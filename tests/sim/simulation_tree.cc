// The tree of relays in a simulation. Frames between hosts keep their order and arrive when they are picked; a relay
// never has two frames on its way up.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace rueda::sim {

using core::RelayConfig;

void Simulation::make_tree() {
  const Tree& tree = job_.tree;
  hosts_.resize(tree.hosts.size());
  for (size_t host = tree.hosts.size(); host-- > 1;) {
    hosts_[static_cast<size_t>(tree.above[host])].below.insert(
        hosts_[static_cast<size_t>(tree.above[host])].below.begin(), static_cast<int>(host));
  }
  std::vector<std::vector<int>> behind = tree.hosts;
  for (size_t host = tree.hosts.size(); host-- > 0;) {
    std::sort(behind[host].begin(), behind[host].end());
    if (host == 0) break;
    std::vector<int>& into = behind[static_cast<size_t>(tree.above[host])];
    into.insert(into.end(), behind[host].begin(), behind[host].end());
  }
  for (size_t host = 0; host < hosts_.size(); ++host) {
    RelayConfig config{job_.config.epoch, job_.config.size, {}, job_.config.sets};
    for (const int local : tree.hosts[host]) config.children.push_back({RelayConfig::Child::Kind::kRank, {local}});
    for (const int child : hosts_[host].below) {
      config.children.push_back({RelayConfig::Child::Kind::kRelay, behind[static_cast<size_t>(child)]});
    }
    hosts_[host].relay = std::make_unique<core::Relay>(config);
  }
}

size_t Simulation::host_of(size_t rank) const {
  const auto holds = [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), static_cast<int>(rank)) != ranks.end();
  };
  const auto& hosts = job_.tree.hosts;
  return static_cast<size_t>(std::find_if(hosts.begin(), hosts.end(), holds) - hosts.begin());
}

void Simulation::add_host_actions(size_t host, std::vector<Action>& actions) {
  const Host& self = hosts_[host];
  const bool heard = host != 0 && lives(static_cast<size_t>(job_.tree.above[host]));
  if (self.dirty) actions.emplace_back([this, host] { send_up(host); });
  if (!self.up.empty() && heard) actions.emplace_back([this, host] { host_up(host); });
  if (self.acknowledging) actions.emplace_back([this, host] { acknowledge(host); });
  if (!self.down.empty()) actions.emplace_back([this, host] { host_down(host); });
}

/// Time passes without progress: relays release what they hold, and a leader that has left dismisses the ranks below.
void Simulation::add_rare_host_actions(size_t host, std::vector<Action>& actions) {
  const std::vector<int>& seen = records_[leader_of(host)].goodbyes;
  const auto leader = static_cast<int>(leader_of(host));
  const bool left = std::find(seen.begin(), seen.end(), leader) != seen.end();
  if (left) actions.emplace_back([this, host] { dismiss(host); });
  actions.emplace_back([this, host] {
    hosts_[host].relay->release();
    hosts_[host].dirty = true;
  });
}

void Simulation::dismiss(size_t host) {
  say(leader_of(host), "takes those below along");
  const size_t children = job_.tree.hosts[host].size() + hosts_[host].below.size();
  for (size_t child = 0; child < children; ++child) hosts_[host].relay->dismiss(child);
  hosts_[host].dirty = true;
}

void Simulation::to_relay(size_t rank, const Frame& frame) {
  const size_t host = host_of(rank);
  const std::vector<int>& locals = job_.tree.hosts[host];
  say(rank, "is heard by its leader");
  const auto child = std::find(locals.begin(), locals.end(), static_cast<int>(rank)) - locals.begin();
  const core::Status status = hosts_[host].relay->from_below(static_cast<size_t>(child), frame);
  if (!status.ok()) fail(status.sentence());
  hosts_[host].dirty = true;
}

/// Rank 0's own relay hands over in memory.
void Simulation::send_up(size_t host) {
  Host& self = hosts_[host];
  self.dirty = false;
  Frame frame = self.relay->take_up();
  if (frame.empty()) return;
  if (host != 0) {
    say(leader_of(host), "relays " + std::to_string(frame.size()) + " bytes");
    if (!self.up.empty() || self.acknowledging) fail("a relay sent two frames without an acknowledgement between");
    self.up.push_back(std::move(frame));
    return;
  }
  if (const core::Status status = arbiter_.receive_relayed(frame); !status.ok()) fail(status.sentence());
  self.relay->acknowledged();
  self.dirty = true;
  plan_due_ = true;
}

void Simulation::host_up(size_t host) {
  Host& self = hosts_[host];
  const auto above = static_cast<size_t>(job_.tree.above[host]);
  const Frame frame = std::move(self.up.front());
  self.up.pop_front();
  const std::vector<int>& siblings = hosts_[above].below;
  const auto position = std::find(siblings.begin(), siblings.end(), static_cast<int>(host)) - siblings.begin();
  const size_t child = job_.tree.hosts[above].size() + static_cast<size_t>(position);
  const core::Status status = hosts_[above].relay->from_below(child, frame);
  if (!status.ok()) fail(status.sentence());
  hosts_[above].dirty = true;
  self.acknowledging = true;
}

void Simulation::acknowledge(size_t host) {
  hosts_[host].acknowledging = false;
  hosts_[host].relay->acknowledged();
  hosts_[host].dirty = true;
}

void Simulation::host_down(size_t host) {
  const Frame frame = std::move(hosts_[host].down.front());
  hosts_[host].down.pop_front();
  if (const core::Status status = hosts_[host].relay->from_above(frame); !status.ok()) fail(status.sentence());
  hosts_[host].dirty = true;
  spread(host);
}

void Simulation::spread(size_t host) {
  Host& self = hosts_[host];
  const std::vector<int>& locals = job_.tree.hosts[host];
  for (size_t child = 0; child < locals.size() + self.below.size(); ++child) {
    for (Frame frame = self.relay->take_down(child); !frame.empty(); frame = self.relay->take_down(child)) {
      if (child < locals.size()) {
        ranks_[static_cast<size_t>(locals[child])].down.push_back({std::move(frame)});
      } else {
        hosts_[static_cast<size_t>(self.below[child - locals.size()])].down.push_back(std::move(frame));
      }
    }
  }
}

/// Its leader is dead: what it had on its way may have left or not.
void Simulation::lose_host(size_t host) {
  Host& self = hosts_[host];
  self.down.clear();
  if (!self.up.empty() && host != 0 && lives(static_cast<size_t>(job_.tree.above[host])) && random_.once_in(2)) {
    host_up(host);
  }
  self.up.clear();
}

/// Lets relays send up what they hold, once nothing else moves, so that rank 0 knows which ranks are missing. Returns
/// false if nothing is held.
bool Simulation::release_held() {
  bool any = false;
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!lives(host) || hosts_[host].relay->held() == 0) continue;
    hosts_[host].relay->release();
    hosts_[host].dirty = any = true;
  }
  return any;
}

/// When nothing moves any more, nothing is held and nothing is on its way.
void Simulation::check_relays() {
  if (dead_ >= 0 || !violation_.empty()) return;
  for (const Host& host : hosts_) {
    if (host.relay->held() != 0) return fail("a relay holds proposals although nothing is missing");
    if (!host.up.empty() || !host.down.empty()) return fail("a frame between hosts never came");
    if (!host.relay->all_left()) return fail("a relay still waits for goodbyes");
  }
}

bool Simulation::all_say_goodbye() {
  bool any = false;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    any = any || (!ranks_[rank].said_goodbye && !records_[rank].dead);
    goodbye(rank);
  }
  return any;
}

}  // namespace rueda::sim
