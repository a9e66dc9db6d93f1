#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/segment.h"
#include "runtime/rendezvous/wish.h"

namespace rueda::core {

/// Returns the ranks that the launcher put on the host of `rank`, without `rank` itself: candidates for shared memory.
std::vector<int> neighbours(std::span<const Endpoint> ranks, int rank);

/// Returns the number of each rank's host; hosts are numbered by their lowest rank. Ranks share a host if the launcher
/// gave them one host name and no report names a failure between any two of them. A rank whose report names itself has
/// a host of its own. Each other rank joins the first host that takes it. `reports` are by rank. Pure.
std::vector<int> partition(std::span<const Endpoint> ranks, std::span<const LocalReport> reports);
/// Returns a sentence if one host name stands for several hosts of `host_of`: which ranks each has, what was refused,
/// and that `carrier` ("TCP") serves instead. Otherwise returns an empty string. Pure.
std::string why_apart(std::span<const Endpoint> ranks, std::span<const LocalReport> reports,
                      std::span<const int> host_of, std::string_view carrier);

/// Returns the layout of a rank's segment on a host of `local_size` ranks: at most 20 MiB with any settings.
SegmentLayout layout_for(const Settings& settings, int local_size);

/// Returns the size of a rank's arena for tensors: the setting, else the rank's part of half the machine's memory, or
/// of a quarter of the process's address space if that is limited to less.
size_t arena_bytes(const Settings& settings, int local_size);

/// Makes a coordinator's doorbell, a non-blocking eventfd. Returns kSystem with errno.
Result<UniqueFd> make_doorbell();

}  // namespace rueda::core
