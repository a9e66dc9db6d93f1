// The checks that need more than one flag: the numbers of workers first, then what makes no sense beside them.

#include "launcher/elastic_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

Status refuse(std::string sentence) { return {Code::kInvalidArgument, std::move(sentence)}; }

milliseconds as_time(double seconds) { return milliseconds(std::llround(seconds * 1000)); }

Status check_numbers(const Arguments& arguments, const MembershipRules& rules) {
  if (arguments.processes == 0)
    return refuse(
        "an elastic job needs -np, the number of workers with which it starts: hvdrun -np 4 --min-np 2 program");
  if (rules.least > rules.wanted)
    return refuse(fmt::format("--min-np {} is above -np {}: a job cannot need more workers than it starts with",
                              rules.least, rules.wanted));
  if (rules.most < rules.wanted)
    return refuse(fmt::format("--max-np {} is below -np {}: raise it, or lower -np", rules.most, rules.wanted));
  return {};
}

Result<milliseconds> capacity_time(const ElasticArguments& elastic, const Environment& environment) {
  if (elastic.timeout_seconds) return as_time(*elastic.timeout_seconds);
  const auto text = environment("HOROVOD_ELASTIC_TIMEOUT");
  if (!text || text->empty()) return MembershipRules{}.capacity;
  double seconds = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size() || !(seconds >= 0) || seconds > 1e6)
    return refuse(fmt::format("HOROVOD_ELASTIC_TIMEOUT is \"{}\"; it must be seconds from 0 to 1000000", *text));
  return as_time(seconds);
}

}  // namespace

Result<MembershipRules> plan_membership(const Arguments& arguments, const std::vector<HostSlots>& hosts,
                                        const Environment& environment) {
  const ElasticArguments& elastic = arguments.elastic;
  MembershipRules rules;
  rules.wanted = arguments.processes;
  rules.least = elastic.least.value_or(rules.wanted);
  rules.most = elastic.most.value_or(std::numeric_limits<int>::max());
  RUEDA_RETURN_IF_ERROR(check_numbers(arguments, rules));
  if (arguments.mpi) return refuse("--mpi cannot start elastic jobs: MPI ends all ranks when one dies; leave it out");
  rules.discovers = !elastic.script.empty();
  if (rules.discovers && !(arguments.hosts.empty() && arguments.hostfile.empty()))
    return refuse("--host-discovery-script lists the hosts of the job: leave out -H and --hostfile");
  if (elastic.slots_per_host && !rules.discovers)
    return refuse("--slots-per-host is for --host-discovery-script; give the slots with the hosts: -H node1:4,node2:4");
  if (elastic.discovery_interval_seconds && !rules.discovers)
    return refuse("--discovery-interval is for --host-discovery-script: leave it out");
  if (elastic.discovery_timeout_seconds && !rules.discovers)
    return refuse("--discovery-timeout is for --host-discovery-script: leave it out");
  int slots = 0;
  for (const auto& host : hosts) slots += host.slots;
  if (slots < rules.wanted && !rules.discovers) {
    return refuse(
        fmt::format("{} workers do not fit into {} slots on {} hosts: give the hosts more slots (-H HOST:SLOTS) "
                    "or lower -np",
                    rules.wanted, slots, hosts.size()));
  }
  const auto capacity = capacity_time(elastic, environment);
  if (!capacity.ok()) return capacity.status();
  rules.capacity = capacity.value();
  if (elastic.rejoin_timeout_seconds) rules.rejoin = as_time(*elastic.rejoin_timeout_seconds);
  if (elastic.removal_timeout_seconds) rules.removal = as_time(*elastic.removal_timeout_seconds);
  rules.resets = elastic.reset_limit;
  const bool as_horovod = elastic.horovod_defaults;
  rules.blacklist.failures = elastic.blacklist_after.value_or(as_horovod ? 1 : rules.blacklist.failures);
  if (elastic.cooldown_seconds) {
    rules.blacklist.cooldown = BlacklistRules::Cooldown{std::chrono::seconds(elastic.cooldown_seconds->first),
                                                        std::chrono::seconds(elastic.cooldown_seconds->second)};
  }
  rules.admission = elastic.admission.value_or(as_horovod ? Admission::kDiscovered : Admission::kReady);
  return rules;
}

std::string misplaced_elastic_flags(const ElasticArguments& elastic) {
  if (elastic.elastic()) return {};
  const bool any = elastic.most || elastic.timeout_seconds || elastic.discovery_interval_seconds ||
                   elastic.discovery_timeout_seconds || elastic.rejoin_timeout_seconds ||
                   elastic.removal_timeout_seconds || elastic.reset_limit || elastic.cooldown_seconds ||
                   elastic.blacklist_after || elastic.admission;
  return any ? "flags of elastic jobs have no effect without --min-np or --host-discovery-script" : "";
}

}  // namespace rueda::core::launcher
