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

/// The set of these ranks in canonical order, by host, then by rank, with the bracket of its sums: one group a host,
/// and of a host with more than 16 of its ranks one a 16. `ranks` ascending; `host_of` by rank, empty: one host. Pure.
SetMembers arrange_set(SetId id, std::span<const int> ranks, std::span<const int> host_of);

/// What is sent from one rank to another runs in a set of the two, one for each direction, which is there as soon as
/// one of them asks: so that the other may come late, or never, without harm to what follows. It has a name that no set
/// of a user's can have (own_names.h), and on either rank a number that follows from the other one's.
inline constexpr SetId kFirstPairSet = 1u << 30;
/// What `rank`, one of the two, calls the set.
SetId pair_number(int rank, int sender, int receiver);
/// Where an operation runs, as the rank that calls it `number` says it: "in process set 3", "to rank 1".
std::string print_place(SetId number);

}  // namespace rueda::core
