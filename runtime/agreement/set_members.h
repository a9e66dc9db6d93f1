#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/agreement/request.h"
#include "runtime/base/own_names.h"

namespace rueda::core {

/// A process set as agreement sees it.
struct SetMembers {
  SetId id = kGlobalSet;
  std::vector<int> ranks;   ///< ranks of the epoch in canonical order
  std::vector<int> groups;  ///< the bracket, for `Team`
  bool one_host = true;
  std::vector<int> hosts = {};  ///< as in `Team`
};

/// Arranges these ranks in canonical order, by host, then by rank, with the bracket of their sums: one group for each
/// host, or one for every 16 ranks of a host that has more. `ranks` is ascending; `host_of` is by rank, and empty if
/// all are on one host. Pure.
SetMembers arrange_set(SetId id, std::span<const int> ranks, std::span<const int> host_of);

/// Messages from one rank to another run in a set of the two, one for each direction, that is made as soon as one of
/// them asks. So the other may come late, or never, without harm to later messages. The set has a name that no set of a
/// user can have (own_names.h), and on each of the two a number that follows from the rank of the other.
inline constexpr SetId kFirstPairSet = 1u << 30;
/// Returns the number that `rank`, one of the two, gives the set.
SetId pair_number(int rank, int sender, int receiver);
/// Says where an operation runs, for the rank that gave the set this number: "in process set 3", "to rank 1".
std::string print_place(SetId number);

}  // namespace rueda::core
