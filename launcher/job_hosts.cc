#include "launcher/job_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/build_id.h"

namespace rueda::core::launcher {
namespace {

std::string describe(const HostShare& share, const Introduction& who) {
  return fmt::format("host {} ({}) {}: hvdrun {} (build {}), {} of {} slots, {} cores, addresses {}", share.host.name,
                     who.host, share.here ? "is this one" : "is reached", who.version, who.build, share.ranks.size(),
                     share.host.slots, who.cores, fmt::join(who.addresses, " "));
}

}  // namespace

JobHosts::JobHosts(EventLoop& loop, const std::vector<HostShare>& shares, std::chrono::milliseconds silence,
                   Events events)
    : loop_(loop), events_(std::move(events)), settled_(shares.size(), false) {
  for (size_t index = 0; index < shares.size(); ++index) {
    HostLink::Events of_host;
    of_host.introduced = [this, index] { introduced(index); };
    of_host.message = [this, index](const Message& message) { events_.message(index, message); };
    of_host.lost = [this, index](const std::string& why) { host_lost(index, why); };
    of_host.over = [this] { settle(); };
    of_host.said = [this, index](std::string_view line) {
      events_.say(fmt::format("host {}: {}", host(index).name(), line));
    };
    links_.push_back(std::make_unique<HostLink>(loop, shares[index], silence, std::move(of_host)));
  }
}

Status JobHosts::start(const Command& command) {
  child_ = std::make_unique<SignalWatch>(loop_, std::vector<int>{SIGCHLD}, [this](int) {
    for (const auto& link : links_) link->reap();
  });
  std::error_code unknown;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  for (const auto& link : links_) {
    const Status started = link->start(command(link->share().host, self), self);
    if (!started.ok()) return {started.code(), fmt::format("host {}: {}", link->name(), started.sentence())};
  }
  return {};
}

void JobHosts::introduced(size_t index) {
  const Introduction& who = *host(index).introduction();
  settled_[index] = true;
  if (who.build != build_id()) {
    failures_.push_back(fmt::format("host {} has hvdrun {} of build {}, this one is build {}: install the same",
                                    host(index).name(), who.version, who.build, build_id()));
  }
  if (describe_) events_.say(describe(host(index).share(), who));
  settle();
}

void JobHosts::host_lost(size_t index, const std::string& why) {
  if (reported_) return events_.lost(index, why);
  settled_[index] = true;
  if (!why.empty()) failures_.push_back(fmt::format("host {} {}", host(index).name(), why));
  settle();
}

void JobHosts::settle() {
  if (!reported_ && std::all_of(settled_.begin(), settled_.end(), [](bool yes) { return yes; })) {
    reported_ = true;
    const bool all = failures_.empty() && std::all_of(links_.begin(), links_.end(), [](const auto& link) {
                       return link->introduction().has_value() && link->open();
                     });
    if (all) {
      tell_twins();
      events_.all_here();
    } else {
      events_.some_failed(failures_);
    }
  }
  if (over_ || !std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->over(); })) return;
  over_ = true;
  events_.over();
}

/// Two names of one machine are two hosts to everybody.
void JobHosts::tell_twins() {
  for (auto link = links_.begin(); link != links_.end(); ++link) {
    const auto& own = (*link)->introduction()->addresses;
    const auto same = [&](const auto& other) { return other->introduction()->addresses == own; };
    const auto twin = std::find_if(links_.begin(), link, same);
    if (twin == link || own.empty()) continue;
    events_.say(
        fmt::format("hosts {} and {} are one machine, with address {}: give all its slots to one name ({}:{}), else "
                    "its ranks count as on two hosts and share no memory",
                    (*twin)->name(), (*link)->name(), own.front(), (*twin)->name(),
                    (*twin)->share().host.slots + (*link)->share().host.slots));
  }
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

}  // namespace rueda::core::launcher
