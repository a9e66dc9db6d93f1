#include "runtime/rendezvous/locality.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <map>
#include <system_error>

namespace rueda::core {
namespace {

/// For the slots of all lanes together, so that a rank grows by less than 24 MiB over init.
constexpr size_t kSlotBudget = size_t{16} << 20;
constexpr size_t kLargestSlot = 256 * 1024;
/// For all control rings together.
constexpr size_t kRingBudget = size_t{2} << 20;
constexpr size_t kLargestRing = 16 * 1024;
constexpr size_t kSmallestRing = 4096;

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
  std::vector<bool> alone(ranks.size(), false);
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    for (const LocalReport::Failure& failure : reports[rank].failures) {
      const auto other = static_cast<size_t>(failure.rank);
      if (other >= ranks.size()) continue;
      alone[rank] = alone[other] = true;
    }
  }
  std::vector<int> host_of(ranks.size());
  std::map<std::string, int> numbers;
  int next = 0;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (alone[rank]) {
      host_of[rank] = next++;
      continue;
    }
    const auto [place, added] = numbers.try_emplace(ranks[rank].host, next);
    if (added) ++next;
    host_of[rank] = place->second;
  }
  return host_of;
}

SegmentLayout layout_for(const Settings& settings, int local_size) {
  SegmentLayout layout;
  layout.local_size = local_size;
  layout.lanes = settings.num_lanes;
  layout.rings = local_size;
  const size_t slots = static_cast<size_t>(layout.lanes) * static_cast<size_t>(layout.slots) * 2;
  layout.slot_bytes = std::min(kLargestSlot, std::bit_floor(kSlotBudget / slots));
  layout.ring_bytes =
      std::clamp(std::bit_floor(kRingBudget / static_cast<size_t>(local_size)), kSmallestRing, kLargestRing);
  return layout;
}

Result<UniqueFd> make_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd.valid()) return Status(Code::kSystem, "eventfd: " + std::generic_category().message(errno));
  return fd;
}

}  // namespace rueda::core
