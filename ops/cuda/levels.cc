// Decides when all-reduces on GPUs take two levels. RUEDA_HIERARCHICAL_ALLREDUCE=1 asks for them, and 0 forbids them.
// Else hosts of several GPUs each take them if NCCL would go over TCP, too: fewer bytes leave a host. With two hosts of
// two GPUs it is two thirds of what NCCL alone would send.
#include "ops/cuda/levels.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cuda/nccl_hierarchical.h"

namespace rueda::cuda {

using core::Choice;

bool may_take_two_levels(Choice hierarchical, const core::Team& team) {
  const HostPlace place = HostPlace::of(team);
  if (hierarchical == Choice::kAuto) return place.each_several();
  return hierarchical == Choice::kForce && place.several;
}

bool take_two_levels(Choice hierarchical, const core::Team& team, std::span<const Told> members) {
  if (!may_take_two_levels(hierarchical, team)) return false;
  return hierarchical == Choice::kForce ||
         !std::ranges::all_of(members, [](const Told& each) { return each.own_network != 0; });
}

std::string describe_levels(const core::Team& team) {
  return fmt::format(
      "all-reduces of {} ranks with GPUs take two levels: NCCL inside each of {} hosts, and Rueda's network between "
      "them, by {} ranks of each",
      team.size(), team.hosts.size(), HostPlace::of(team).slices);
}

}  // namespace rueda::cuda
