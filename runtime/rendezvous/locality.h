#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/segment.h"
#include "runtime/rendezvous/wish.h"

namespace rueda::core {

/// The ranks that the launcher put on the same host as `rank`, which is not among them: memory may be shared with them.
std::vector<int> neighbours(std::span<const Endpoint> ranks, int rank);

/// By rank, the number of its host; hosts are numbered by their lowest rank. Ranks share a host if the launcher gave
/// them one name and memory passed between all of them, whichever of two reported: each rank goes to the first host
/// that takes it. `reports` by rank. Pure.
std::vector<int> partition(std::span<const Endpoint> ranks, std::span<const LocalReport> reports);
/// Where one name stands for several hosts of `host_of`, a sentence that says which ranks each has, and why; else
/// empty. Pure.
std::string why_apart(std::span<const Endpoint> ranks, std::span<const LocalReport> reports,
                      std::span<const int> host_of);

/// What a rank's segment holds on a host of `local_size` ranks: at most 20 MiB whatever the settings.
SegmentLayout layout_for(const Settings& settings, int local_size);

/// A coordinator's doorbell: a non-blocking eventfd. kSystem: errno.
Result<UniqueFd> make_doorbell();

}  // namespace rueda::core
