// Keeps the order of hosts and judges them by the failures of their workers. Nothing is forgotten when a host leaves
// the list: it comes back to its old position, with the failures that it had.

#include "launcher/host_roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace rueda::core::launcher {
namespace {

constexpr std::chrono::milliseconds kFirstRest{2000};
constexpr std::chrono::milliseconds kLongestRest{60000};
constexpr int kMostDoublings = 16;  // of a time that is clamped anyway

// splitmix64 (Steele, Lea, Flood 2014), so that a seed replays on every platform.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

HostRoster::HostRoster(const std::vector<HostSlots>& hosts, BlacklistRules rules, uint64_t seed)
    : rules_(rules), random_(seed) {
  list(hosts);
  for (Host& host : hosts_) host.lost = false;
}

HostRoster::Host* HostRoster::find(const std::string& host) {
  return const_cast<Host*>(std::as_const(*this).find(host));
}

const HostRoster::Host* HostRoster::find(const std::string& host) const {
  const auto same = [&host](const Host& one) { return one.host.name == host; };
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), same);
  return found == hosts_.end() ? nullptr : &*found;
}

void HostRoster::list(const std::vector<HostSlots>& hosts) {
  std::set<std::string> before;
  for (Host& known : hosts_) {
    if (std::exchange(known.listed, false)) before.insert(known.host.name);
  }
  for (const HostSlots& one : hosts) {
    Host* known = find(one.name);
    if (known == nullptr) {
      known = &hosts_.emplace_back();
      known->lost = true;
    }
    if (!before.contains(one.name)) {  // so it came back, perhaps repaired
      for (auto& [slot, rest] : known->rests) rest.from = Time(0);
    }
    known->host = one;
    known->listed = true;
  }
}

void HostRoster::lose(const std::string& host) {
  if (Host* known = find(host)) known->lost = true;
}

void HostRoster::reached(const std::string& host) {
  if (Host* known = find(host)) known->lost = known->preempted = false;
}

bool HostRoster::preempt(const std::string& host) {
  Host* const known = find(host);
  return known != nullptr && !std::exchange(known->preempted, true);
}

bool HostRoster::preempted(const std::string& host) const {
  const Host* const known = find(host);
  return known != nullptr && known->preempted;
}

std::string HostRoster::charge(const std::string& host, int slot, Time now) {
  Host* const known = find(host);
  if (known == nullptr) return {};
  Host::Rest& rest = known->rests[slot];
  rest.from = now + std::min(kLongestRest, kFirstRest * (1 << std::min(rest.failures, kMostDoublings)));
  ++rest.failures;
  known->failures.push_back(now);
  std::erase_if(known->failures, [&](Time at) { return now - at > rules_.window; });
  const bool last = std::count_if(hosts_.begin(), hosts_.end(), [](const Host& one) { return one.usable(); }) < 2;
  if (!known->usable() || last || static_cast<int>(known->failures.size()) < rules_.failures) return {};
  known->blacklisted = true;
  ++known->blacklistings;
  known->failures.clear();
  std::string until = "for ever";
  if (rules_.cooldown) {
    const Time time = cooldown(*known);
    known->blacklisted_until = now + time;
    until = fmt::format("for {:.1f} s", std::chrono::duration<double>(time).count());
  }
  return fmt::format("host {} gets no more workers {}: {} failed there within {} s (--blacklist-after)", host, until,
                     rules_.failures, std::chrono::duration_cast<std::chrono::seconds>(rules_.window).count());
}

HostRoster::Time HostRoster::cooldown(const Host& host) {
  const auto [least, most] = *rules_.cooldown;
  const auto more =
      Time(least.count() == 0 ? 0 : static_cast<int64_t>(next_random(random_) % static_cast<uint64_t>(least.count())));
  return std::clamp(least * (1 << std::min(host.blacklistings, kMostDoublings)) + more, least, most);
}

void HostRoster::cool(Time now) {
  for (Host& host : hosts_) {
    if (!host.blacklisted_until || *host.blacklisted_until > now) continue;
    host.blacklisted = false;
    host.blacklisted_until.reset();
  }
}

bool HostRoster::usable(const std::string& host, int slot) const {
  const Host* const known = find(host);
  return known != nullptr && known->usable() && slot < known->host.slots;
}

int HostRoster::usable_slots() const {
  int all = 0;
  for (const Host& host : hosts_) all += host.usable() ? host.host.slots : 0;
  return all;
}

size_t HostRoster::index(const std::string& host) const {
  const auto same = [&host](const Host& one) { return one.host.name == host; };
  return static_cast<size_t>(std::find_if(hosts_.begin(), hosts_.end(), same) - hosts_.begin());
}

std::vector<HostRoster::Slot> HostRoster::slots() const {
  std::vector<Slot> all;
  for (const Host& host : hosts_) {
    for (int slot = 0; host.usable() && slot < host.host.slots; ++slot) {
      const auto rest = host.rests.find(slot);
      all.push_back({host.host.name, slot, rest == host.rests.end() ? Time(0) : rest->second.from});
    }
  }
  return all;
}

std::optional<HostRoster::Time> HostRoster::next_cool() const {
  std::optional<Time> next;
  for (const Host& host : hosts_) {
    if (host.blacklisted_until && (!next || *host.blacklisted_until < *next)) next = host.blacklisted_until;
  }
  return next;
}

}  // namespace rueda::core::launcher
