#include "runtime/engine/relay.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {

std::optional<RelayConfig> relay_config(const EpochPlan& plan, const std::vector<SetMembers>& sets) {
  if (!uses_control_tree(plan)) return std::nullopt;
  const ControlTree tree(plan.host_of);
  const int host = plan.host_of[static_cast<size_t>(plan.rank)];
  if (tree.local(host).front() != plan.rank) return std::nullopt;
  using Kind = RelayConfig::Child::Kind;
  RelayConfig config{plan.epoch, plan.size, {}, sets};
  for (const int local : tree.local(host)) config.children.push_back({Kind::kRank, {local}});
  for (const int child : tree.children(host)) config.children.push_back({Kind::kRelay, tree.subtree(child)});
  return config;
}

}  // namespace rueda::core
