// The hosts of an elastic job while it runs. Those of the command line are all there before it begins; those of a
// script come and go:
//
//   discovery_ runs the script -> hosts_listed -> keeper_ starts agents; membership_ drops what is not listed
//     -> an agent answers -> kStart -> kRoute: it has found program and store -> membership_ may use the host
//     -> a host is listed no more, and its last worker has ended -> keeper_ lets go of it
//
// Any host may be about to go, as its agent hears from a scheduler or the user tells hvdrun. Its agent is let go of in
// the same way, once its last worker has ended.

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "launcher/elastic_conductor.h"
#include "launcher/start_order.h"
#include "launcher/store_route.h"
#include "runtime/base/printable.h"

namespace rueda::core::launcher {

using std::chrono::milliseconds;

/// Tells a host's agent what to start, without a worker yet.
Status ElasticJob::order_host(size_t host) {
  StartOrder order = start_order(arguments_, plan_, hosts_.host(host), *store_);
  const auto routes =
      keeper_ ? hosts_.routes_of(host, plan_.interfaces) : Result<std::vector<std::string>>(routes_.of_host[host]);
  if (!routes.ok()) return routes.status();
  for (const auto& address : routes.value()) order.stores.push_back(with_port(address, store_->port()));
  order.ranks.clear();
  order.stay = AgentStay::kUntilEnd;
  hosts_.send(host, {MessageType::kStart, -1, 0, encode(order)});
  return {};
}

Status ElasticJob::discover() {
  const ElasticArguments& elastic = arguments_.elastic;
  const auto limit = std::chrono::duration_cast<milliseconds>(arguments_.start_timeout);
  keeper_ = std::make_unique<HostKeeper>(loop_, hosts_, agent_command(arguments_, plan_), limit, HostKeeper::Rests{},
                                         keeper_events());
  HostDiscovery::Script script{elastic.script, elastic.slots_per_host.value_or(1), plan_.directory};
  const auto as_time = [](double seconds) { return milliseconds(std::llround(seconds * 1000)); };
  if (elastic.discovery_interval_seconds) script.every = as_time(*elastic.discovery_interval_seconds);
  if (elastic.discovery_timeout_seconds) script.limit = as_time(*elastic.discovery_timeout_seconds);
  discovery_ = std::make_unique<HostDiscovery>(
      loop_, std::move(script),
      HostDiscovery::Events{[this](const std::vector<HostSlots>& hosts) { hosts_listed(hosts); },
                            [this](const std::string& why) { fail(why); },
                            [this](const std::string& line) { output_.say(line); }, [this] { finish_when_over(); }});
  return discovery_->start();
}

HostKeeper::Events ElasticJob::keeper_events() {
  return {[this](size_t host) { host_answered(host); },
          [this](size_t host) { tell([&] { membership_.reached(hosts_.host(host).name()); }); },
          [this](size_t host, const std::string& why) {
            const std::string& name = hosts_.host(host).name();
            if (!ended_) output_.say(fmt::format("host {} {}", name, why));
            lose(name, why);
          },
          [this] { tell([this] { membership_.begin(); }); }, [this](const std::string& line) { output_.say(line); }};
}

void ElasticJob::hosts_listed(const std::vector<HostSlots>& hosts) {
  if (ended_) return;
  tell([&] { membership_.listed(hosts); });  // before the keeper, which may reach them
  keeper_->list(hosts);
  let_go_of_hosts();
}

void ElasticJob::host_answered(size_t host) {
  const Status ordered = order_host(host);
  if (!ordered.ok()) hosts_.give_up(host, fmt::format("cannot be used: {}", ordered.sentence()));
}

void ElasticJob::preempted(size_t host) {
  if (ended_) return;
  if (keeper_) {
    keeper_->preempted(host);
  } else {
    preempted_.insert(host);
  }
  tell([&] { membership_.preempted(hosts_.host(host).name()); });
  let_go_of_hosts();
}

/// Answers the user's `hvdrun --signal-removal`.
Result<std::string> ElasticJob::signal_removal(const std::string& host) {
  std::optional<size_t> found;
  std::string names;
  for (size_t index = 0; index < hosts_.count(); ++index) {
    if (!hosts_.host(index).open()) continue;
    names += (names.empty() ? "" : ", ") + hosts_.host(index).name();
    if (hosts_.host(index).name() == host) found = index;
  }
  if (ended_) return Status(Code::kInvalidArgument, "the job is ending");
  if (!found) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the job has no host \"{}\"; its hosts are {}", printable(host), names));
  }
  int workers = 0;
  for (const int64_t worker : membership_.running()) workers += records_.at(worker).host == *found ? 1 : 0;
  preempted(*found);
  return fmt::format(
      "host {} is about to go: its workers ({}) leave with the next plan, and those that still run {} s "
      "after the first notice are ended",
      host, workers, std::chrono::duration<double>(plan_.elastic->removal).count());
}

/// Answers the user's `hvdrun --signal-hosts`.
Result<std::string> ElasticJob::signal_hosts() {
  if (ended_) return Status(Code::kInvalidArgument, "the job is ending");
  if (!discovery_) {
    return Status(Code::kInvalidArgument,
                  "the job has no --host-discovery-script, so its hosts stay those that it was started with");
  }
  discovery_->run_now();
  return fmt::format("--host-discovery-script {} runs now", printable(arguments_.elastic.script));
}

void ElasticJob::let_go_of_hosts() {
  if (ended_) return;
  std::set<std::string> busy;
  for (const int64_t worker : membership_.running()) busy.insert(records_.at(worker).host_name);
  std::vector<std::string> gone = keeper_ ? keeper_->let_go(busy) : std::vector<std::string>();
  for (const size_t host : preempted_) {
    const std::string& name = hosts_.host(host).name();
    if (busy.contains(name) || !lost_hosts_.insert(host).second) continue;
    hosts_.send(host, {MessageType::kEnd, -1, 0, {}});
    gone.push_back(name);
  }
  for (const std::string& name : gone) tell([&] { membership_.lost(name, "is no longer the job's"); });
}

}  // namespace rueda::core::launcher
