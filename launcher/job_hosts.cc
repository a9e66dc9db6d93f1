// Waits for every host before it reports, so that a user with three broken hosts reads three sentences at once and not
// one per attempt. A host is settled once it has introduced itself or failed. When all are settled, exactly one of
// `all_here` and `some_failed` is called; losses before that become sentences, losses after it become `lost`.

#include "launcher/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/build_id.h"
#include "runtime/net/interfaces.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kThisMachine = "127.0.0.1";

std::string describe(const HostShare& share, const Introduction& agent) {
  return fmt::format("host {} ({}) {}: hvdrun {} (build {}), {} of {} slots, {} cores, addresses {}", share.host.name,
                     agent.host, share.here ? "is this one" : "is reached", agent.version, agent.build,
                     share.ranks.size(), share.host.slots, agent.cores, fmt::join(agent.addresses, " "));
}

}  // namespace

JobHosts::JobHosts(EventLoop& loop, const std::vector<HostShare>& shares, std::chrono::milliseconds silence,
                   Events events)
    : loop_(loop), silence_(silence), events_(std::move(events)), settled_(shares.size(), false) {
  for (size_t index = 0; index < shares.size(); ++index) links_.push_back(make_link(index, shares[index]));
  limits_.resize(shares.size());
}

std::unique_ptr<HostLink> JobHosts::make_link(size_t index, const HostShare& share) {
  HostLink::Events of_host;
  of_host.introduced = [this, index] { introduced(index); };
  of_host.message = [this, index](const Message& message) { events_.message(index, message); };
  of_host.lost = [this, index](const std::string& why) { host_lost(index, why); };
  of_host.over = [this, index] { link_over(index); };
  of_host.said = [this, index](std::string_view line) {
    events_.say(fmt::format("host {}: {}", host(index).name(), line));
  };
  return std::make_unique<HostLink>(loop_, share, silence_, std::move(of_host));
}

Status JobHosts::start(const Command& command) {
  child_ = std::make_unique<SignalWatch>(loop_, std::vector<int>{SIGCHLD}, [this](int) {
    for (const auto& link : links_) link->reap();  // all, because one SIGCHLD may stand for several deaths
  });
  std::error_code unknown;
  // Other hosts try this path first: clusters often mount the same folders everywhere.
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  for (const auto& link : links_) {
    const Status started = link->start(command(link->share().host, self), self);
    if (!started.ok()) return {started.code(), fmt::format("host {}: {}", link->name(), started.sentence())};
  }
  if (links_.empty()) loop_.post([this] { settle(); });  // all hosts of none are here
  return {};
}

size_t JobHosts::add(const HostShare& share) {
  const size_t index = links_.size();
  links_.push_back(make_link(index, share));
  limits_.push_back(std::make_unique<Timer>(loop_));
  settled_.push_back(true);
  return index;
}

Status JobHosts::reach(size_t index, const HostShare& share, const Command& command, std::chrono::milliseconds limit) {
  links_[index] = make_link(index, share);
  std::error_code unknown;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  RUEDA_RETURN_IF_ERROR(links_[index]->start(command(share.host, self), self));
  if (limit.count() == 0) return {};
  limits_[index]->start(limit, [this, index, limit] {
    const double seconds = std::chrono::duration<double>(limit).count();
    links_[index]->give_up(fmt::format("did not answer within {} s", seconds));
  });
  return {};
}

void JobHosts::expect_no_more() {
  if (std::exchange(more_, false)) loop_.post([this] { settle(); });
}

void JobHosts::link_over(size_t index) {
  if (limits_[index]) limits_[index]->cancel();
  settle();
  if (limits_[index]) events_.left(index);
}

void JobHosts::introduced(size_t index) {
  const Introduction& agent = *host(index).introduction();
  settled_[index] = true;
  const bool same = agent.build == build_id();
  const std::string other =
      same ? ""
           : fmt::format("has hvdrun {} of build {}, but this one is build {}: install the same build", agent.version,
                         agent.build, build_id());
  if (describe_) events_.say(describe(host(index).share(), agent));
  if (limits_[index]) {
    limits_[index]->cancel();
    if (!same) return links_[index]->give_up(other);
    tell_twin(index);
    return events_.answered(index);
  }
  if (!same) failures_.push_back(fmt::format("host {} {}", host(index).name(), other));
  settle();
}

void JobHosts::host_lost(size_t index, const std::string& why) {
  if (reported_) return events_.lost(index, why);  // the job has begun, so the judge decides what it means
  settled_[index] = true;
  // Empty if the user gave the host up; there is nothing to report then.
  if (!why.empty()) failures_.push_back(fmt::format("host {} {}", host(index).name(), why));
  settle();
}

void JobHosts::settle() {
  if (!reported_ && std::all_of(settled_.begin(), settled_.end(), [](bool yes) { return yes; })) {
    reported_ = true;
    // A link may have closed since its introduction; its reason is on the way and the job must not begin.
    const bool all = failures_.empty() && std::all_of(links_.begin(), links_.end(), [](const auto& link) {
                       return link->introduction().has_value() && link->open();
                     });
    if (all) {
      for (size_t index = 0; index < links_.size(); ++index) tell_twin(index);
      events_.all_here();
    } else {
      events_.some_failed(failures_);
    }
  }
  const auto gone = [](const auto& link) { return link->over() || !link->started(); };
  if (over_ || more_ || !std::all_of(links_.begin(), links_.end(), gone)) return;
  over_ = true;
  events_.over();
}

/// Warns once of two names for one machine, which ranks and algorithms take for two hosts. Hosts with the same list of
/// addresses are one machine. The kernel's boot id would not tell: containers of one machine share it, and are hosts of
/// their own.
void JobHosts::tell_twin(size_t index) {
  const auto& own = host(index).introduction()->addresses;
  const auto same = [&](const auto& other) {
    return other->name() != host(index).name() && other->open() && other->introduction() &&
           other->introduction()->addresses == own;
  };
  const auto found = std::find_if(links_.begin(), links_.end(), same);
  if (found == links_.end() || own.empty()) return;
  const auto twin = static_cast<size_t>(found - links_.begin());
  const size_t first = std::min(index, twin), second = std::max(index, twin);
  if (!told_twins_.emplace(host(first).name(), host(second).name()).second) return;
  events_.say(
      fmt::format("hosts {} and {} are the same machine (address {}): give all its slots to one name ({}:{}), or its "
                  "ranks count as two hosts and share no memory",
                  host(first).name(), host(second).name(), own.front(), host(first).name(),
                  host(first).share().host.slots + host(second).share().host.slots));
}

void JobHosts::end_waiting(std::chrono::duration<double> waited) {
  for (size_t index = 0; index < links_.size(); ++index) {
    if (!settled_[index]) links_[index]->give_up(fmt::format("did not answer within {} s", waited.count()));
  }
}

void JobHosts::drop_unanswered() {
  for (size_t index = 0; index < links_.size(); ++index) {
    if (!settled_[index]) links_[index]->give_up({});
  }
}

bool JobHosts::any_open() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->open(); });
}

bool JobHosts::heard_lately(int rank) const {
  return std::any_of(links_.begin(), links_.end(), [rank](const auto& link) {
    const auto& ranks = link->share().ranks;
    const auto same = [rank](const Placement& placement) { return placement.rank == rank; };
    return std::any_of(ranks.begin(), ranks.end(), same) && link->heard_lately();
  });
}

void JobHosts::send_all(const Message& message) {
  for (const auto& link : links_) link->send(message);
}

void JobHosts::grant() {
  for (const auto& link : links_) link->grant();
}

Result<StoreRoutes> JobHosts::store_routes(const std::string& interfaces) const {
  auto own = listen_addresses(interfaces);
  if (!own.ok()) return own.status();
  std::erase(own.value(), kThisMachine);
  std::vector<HostView> views;
  for (const auto& link : links_) views.push_back({link->share().here, link->introduction()->client});
  if (!more_) return plan_store_routes(own.value(), views);
  own.value().insert(own.value().begin(), kThisMachine);  // any host may come, also this one
  return StoreRoutes{std::move(own).value(), {}};
}

Result<std::vector<std::string>> JobHosts::routes_of(size_t index, const std::string& interfaces) const {
  auto own = listen_addresses(interfaces);
  if (!own.ok()) return own.status();
  std::erase(own.value(), kThisMachine);
  auto routes = plan_store_routes(own.value(), {{host(index).share().here, host(index).introduction()->client}});
  if (!routes.ok()) return routes.status();
  return std::move(routes.value().of_host.front());
}

}  // namespace rueda::core::launcher
