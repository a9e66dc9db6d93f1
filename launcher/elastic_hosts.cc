// The hosts of an elastic job while it runs. Those of the command line are all there before it begins; those of a
// script come and go:
//
//   discovery_ runs the script -> hosts_listed -> keeper_ starts agents; membership_ drops what is not listed
//     -> an agent answers -> kStart -> kRoute: it has found program and store -> membership_ may use the host
//     -> a host is listed no more, and its last worker has ended -> keeper_ lets go of it

#include <fmt/format.h>

#include <chrono>
#include <set>

#include "launcher/elastic_conductor.h"
#include "launcher/start_order.h"
#include "launcher/store_route.h"

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
  keeper_ = std::make_unique<HostKeeper>(loop_, hosts_, agent_command(arguments_, plan_), limit, keeper_events());
  discovery_ = std::make_unique<HostDiscovery>(
      loop_, HostDiscovery::Script{elastic.script, elastic.slots_per_host.value_or(1), plan_.directory},
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
            tell([&] { membership_.lost(name, why); });
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

void ElasticJob::let_go_of_hosts() {
  if (!keeper_ || ended_) return;
  std::set<std::string> busy;
  for (const int64_t worker : membership_.running()) busy.insert(records_.at(worker).host_name);
  for (const std::string& name : keeper_->let_go(busy)) {
    tell([&] { membership_.lost(name, "is no longer listed"); });
  }
}

}  // namespace rueda::core::launcher
