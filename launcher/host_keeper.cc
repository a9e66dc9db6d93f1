// A host goes round this circle, and keeps its index in JobHosts for ever:
//
//   kAway --> kComing --> kHere --> kLeaving --> kAway, and kComing again if it is listed
//                |                     ^
//                +---- fails ----------+
//
// A host that fails rests 2 s before the next try, then 4 s, at most a minute. After a minute in which it was there it
// begins anew. The user hears of each reason once.

#include "launcher/host_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/messages.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

constexpr int kMostRestDoublings = 5;

}  // namespace

HostKeeper::HostKeeper(EventLoop& loop, JobHosts& hosts, JobHosts::Command command, milliseconds limit, Rests rests,
                       Events events)
    : loop_(loop),
      hosts_(hosts),
      command_(std::move(command)),
      limit_(limit),
      rests_(rests),
      events_(std::move(events)) {}

void HostKeeper::list(const std::vector<HostSlots>& hosts) {
  if (ending_) return;
  std::set<size_t> before;
  for (auto& [index, site] : sites_) {
    if (std::exchange(site.listed, false)) before.insert(index);
  }
  for (const HostSlots& host : hosts) {
    const auto same = [&host](const auto& entry) { return entry.second.host.name == host.name; };
    auto found = std::find_if(sites_.begin(), sites_.end(), same);
    if (found == sites_.end()) found = sites_.try_emplace(hosts_.add(share_of(host)), loop_, host).first;
    Site& site = found->second;
    const bool comes_back = !before.contains(found->first);
    site.listed = true;
    site.host = host;
    if (site.state == State::kAway && (comes_back || (site.failures == 0 && !site.preempted))) come(found->first);
  }
  for (auto& [index, site] : sites_) {
    if (site.listed) continue;
    site.failures = 0;  // if it comes back it is tried at once
    site.retry.cancel();
    if (site.state == State::kComing) {
      site.state = State::kLeaving;
      hosts_.give_up(index);
    }
  }
  settle();
}

void HostKeeper::preempted(size_t index) {
  if (const auto found = sites_.find(index); found != sites_.end()) found->second.preempted = true;
}

std::vector<std::string> HostKeeper::let_go(const std::set<std::string>& busy) {
  std::vector<std::string> gone;
  for (auto& [index, site] : sites_) {
    if ((site.listed && !site.preempted) || site.state != State::kHere || busy.contains(site.host.name)) continue;
    site.state = State::kLeaving;
    hosts_.send(index, {MessageType::kEnd, -1, 0, {}});
    gone.push_back(site.host.name);
  }
  return gone;
}

void HostKeeper::come(size_t index) {
  Site& site = sites_.at(index);
  site.retry.cancel();
  site.preempted = false;
  site.state = State::kComing;
  const Status started = hosts_.reach(index, share_of(site.host), command_, limit_);
  if (started.ok()) return;
  site.state = State::kAway;
  fail(index, fmt::format("cannot be reached: {}", started.sentence()));
  come_later(index);
}

// Never inside the call of the old link, which `reach` replaces.
void HostKeeper::come_later(size_t index) {
  Site& site = sites_.at(index);
  site.retry.start(rest_of(site), [this, index] { come(index); });
}

milliseconds HostKeeper::rest_of(const Site& site) const {
  if (site.preempted) return rests_.longest;  // by then it is gone, or was spared
  if (site.failures == 0) return milliseconds(0);
  return std::min(rests_.first * (1 << std::min(site.failures - 1, kMostRestDoublings)), rests_.longest);
}

void HostKeeper::ready(size_t index) {
  const auto found = sites_.find(index);
  if (found == sites_.end() || found->second.state != State::kComing) return;
  found->second.state = State::kHere;
  found->second.since = SteadyClock::now();
  found->second.said.clear();
  if (!found->second.preempted) events_.ready(index);  // else it goes before it has begun
  settle();
}

void HostKeeper::lost(size_t index, const std::string& why) {
  const auto found = sites_.find(index);
  if (found == sites_.end()) return;
  Site& site = found->second;
  const State before = site.state;
  if (before != State::kHere && before != State::kComing) return;
  site.state = State::kLeaving;
  if (before == State::kComing) return fail(index, why);
  if (SteadyClock::now() - site.since > rests_.longest) site.failures = 0;
  ++site.failures;
  events_.gone(index, why);
}

void HostKeeper::fail(size_t index, const std::string& why) {
  Site& site = sites_.at(index);
  ++site.failures;
  if (!ending_ && std::exchange(site.said, why) != why)
    events_.say(fmt::format("host {} {}; it is tried again", site.host.name, why));
  settle();
}

void HostKeeper::left(size_t index) {
  const auto found = sites_.find(index);
  if (found == sites_.end()) return;
  found->second.state = State::kAway;
  if (found->second.listed && !ending_) come_later(index);
}

void HostKeeper::settle() {
  const auto waits = [](const auto& entry) { return entry.second.state == State::kComing; };
  if (ending_ || settled_ || std::any_of(sites_.begin(), sites_.end(), waits)) return;
  settled_ = true;
  events_.settled();
}

void HostKeeper::end() {
  if (std::exchange(ending_, true)) return;
  for (auto& [index, site] : sites_) {
    site.retry.cancel();
    if (site.state == State::kComing) hosts_.give_up(index);
  }
}

}  // namespace rueda::core::launcher
