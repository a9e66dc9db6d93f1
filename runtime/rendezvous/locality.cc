// Groups ranks into hosts by what really worked. A failure between any two ranks separates them, so each rank joins the
// first group in which it has no failure with any member. This is greedy and may split more than needed, but all
// members of a group share memory pairwise, and rank 0 alone computes it, so all ranks have the same groups.
#include "runtime/rendezvous/locality.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "runtime/base/rank_ranges.h"
#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

/// The limit for the slots of all lanes together: a rank grows by less than 24 MiB during init.
constexpr size_t kSlotBudget = size_t{16} << 20;
constexpr size_t kLargestSlot = 256 << 10;
/// The limit for all control rings together.
constexpr size_t kRingBudget = size_t{2} << 20;
constexpr size_t kLargestRing = 16 << 10;
constexpr size_t kSmallestRing = 4096;
constexpr size_t kMostHostBytes = 200;
constexpr size_t kMostGroups = 4;  // that a sentence names

/// The first failure of each rank. Ranks that can share with no other come first: for their peers, they only seem gone.
std::vector<std::pair<int, const LocalReport::Failure*>> first_told(std::span<const LocalReport> reports) {
  std::vector<std::pair<int, const LocalReport::Failure*>> told;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank].failures.empty()) told.emplace_back(static_cast<int>(rank), &reports[rank].failures.front());
  }
  std::stable_partition(told.begin(), told.end(), [](const auto& entry) { return entry.first == entry.second->rank; });
  return told;
}

}  // namespace

std::vector<int> neighbours(std::span<const Endpoint> ranks, int rank) {
  std::vector<int> found;
  for (int other = 0; other < static_cast<int>(ranks.size()); ++other) {
    const bool same = ranks[static_cast<size_t>(other)].host == ranks[static_cast<size_t>(rank)].host;
    if (same && other != rank) found.push_back(other);
  }
  return found;
}

std::vector<int> partition(std::span<const Endpoint> ranks, std::span<const LocalReport> reports) {
  // A failure counts for both ranks, whichever of them has reported it. A rank that is apart from itself is alone.
  std::set<std::pair<size_t, size_t>> apart;
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    for (const LocalReport::Failure& failure : reports[rank].failures) {
      const auto other = static_cast<size_t>(failure.rank);
      if (other < ranks.size()) apart.emplace(std::min(rank, other), std::max(rank, other));
    }
  }
  std::vector<int> host_of(ranks.size());
  struct Host {
    int number;
    std::vector<size_t> members;
  };
  // By name, so that a rank looks only at hosts that may take it: a job may have thousands.
  std::unordered_map<std::string_view, std::vector<Host>> named;
  int count = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const bool alone = apart.contains({rank, rank});
    const auto takes = [&](const Host& host) {
      return !apart.contains({host.members.front(), host.members.front()}) &&
             std::none_of(host.members.begin(), host.members.end(), [&](size_t each) {
               return apart.contains({each, rank});
             });
    };
    std::vector<Host>& hosts = named[ranks[rank].host];
    auto host = alone ? hosts.end() : std::find_if(hosts.begin(), hosts.end(), takes);
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {count++, {}});
    host->members.push_back(rank);
    host_of[rank] = host->number;
  }
  return host_of;
}

std::string why_apart(std::span<const Endpoint> ranks, std::span<const LocalReport> reports,
                      std::span<const int> host_of, std::string_view carrier) {
  const auto told = first_told(reports);
  for (const auto& [rank, failure] : told) {
    const std::string& name = ranks[static_cast<size_t>(rank)].host;
    std::map<int, std::vector<int>> hosts;
    for (size_t other = 0; other < ranks.size(); ++other) {
      if (ranks[other].host == name) hosts[host_of[other]].push_back(static_cast<int>(other));
    }
    if (hosts.size() < 2) continue;
    std::string text = "init: host " + name + ": no shared memory between ";
    size_t named = 0;
    for (const auto& [number, members] : hosts) {
      if (named == kMostGroups) break;
      text += (named++ == 0 ? "" : " and ") + bounded_rank_ranges(members, {}, kMostHostBytes);
    }
    if (hosts.size() > named) text += " and " + std::to_string(hosts.size() - named) + " more groups of ranks";
    text += ", which use " + std::string(carrier) + " instead; rank " + std::to_string(rank);
    if (failure->rank != rank) text += " with rank " + std::to_string(failure->rank);
    return text + ": " + failure->reason;
  }
  return {};
}

SegmentLayout layout_for(const Settings& settings, int local_size) {
  SegmentLayout layout;
  layout.local_size = local_size;
  layout.lanes = settings.num_lanes;
  layout.rings = local_size;
  // Input and result slots of all lanes share the budget. Powers of two keep chunks aligned.
  const size_t slots = static_cast<size_t>(layout.lanes) * static_cast<size_t>(layout.slots) * 2;
  layout.slot_bytes = std::min(kLargestSlot, std::bit_floor(kSlotBudget / slots));
  layout.ring_bytes =
      std::clamp(std::bit_floor(kRingBudget / static_cast<size_t>(local_size)), kSmallestRing, kLargestRing);
  return layout;
}

size_t arena_bytes(const Settings& settings, int local_size) {
  constexpr uint64_t kLeast = uint64_t{1} << 20;
  if (settings.shared_tensor_bytes != 0) return settings.shared_tensor_bytes;
  auto memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  // A rank maps the arenas of all ranks of the host. If its address space is limited, the program needs most of it.
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    memory = std::min(memory, space.rlim_cur / 2);
  return std::max(kLeast, memory / 2 / static_cast<uint64_t>(local_size));
}

Result<UniqueFd> make_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) return Status(Code::kSystem, "eventfd: " + reason_of(errno));
  return fd;
}

}  // namespace rueda::core
