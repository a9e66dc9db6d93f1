#pragma once
#include <span>
#include <vector>

#include "runtime/engine/request.h"

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

}  // namespace rueda::core
