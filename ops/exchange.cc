// The bookkeeping of an exchange of rows, the same for shared memory and channels: which rows of a tensor go to each
// member, and which memory each sender's rows arrive in.
//
//   input of a sender        rows for rank 0 | for rank 1 | for rank 2        an all-to-all or scatter: cut by `parts`
//                            all rows for every receiver                      an all-gather or gather
//   result of a receiver     rows of rank 0 | of rank 1 | of rank 2           in the order of ranks
//
// Members are counted in the team's order (by host), but rows lie in the order of ranks; `by_rank_` leads from one to
// the other. Counts come from another process: one that no tensor can have ends the epoch instead of reaching an
// allocation.
#include "ops/exchange.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

namespace rueda::core {

namespace {

/// The limit that agreement sets for a tensor: 128 TiB.
constexpr uint64_t kMostBytes = uint64_t{1} << 47;

}  // namespace

Exchange::Exchange(const Call& call)
    : call_(call),
      team_(*call.team),
      element_(size_of(call.dtype)),
      by_rank_(team_.ranks.size()),
      position_of_(team_.ranks.size()),
      counts_(team_.ranks.size() * call.slices.size()),
      arriving_(counts_.size()) {
  std::iota(by_rank_.begin(), by_rank_.end(), 0);
  std::sort(by_rank_.begin(), by_rank_.end(),
            [this](int a, int b) { return team_.ranks[static_cast<size_t>(a)] < team_.ranks[static_cast<size_t>(b)]; });
  for (size_t i = 0; i < by_rank_.size(); ++i) position_of_[static_cast<size_t>(by_rank_[i])] = i;
  const std::vector<int64_t> own = counts_to(index());
  std::copy(own.begin(), own.end(), counts_.begin() + static_cast<std::ptrdiff_t>(at(index(), 0)));
}

bool Exchange::sends(int member) const { return call_.kind != OpKind::kScatter || member == call_.root; }

bool Exchange::receives(int member) const { return call_.kind != OpKind::kGather || member == call_.root; }

bool Exchange::same_for_all() const { return call_.kind == OpKind::kAllgather || call_.kind == OpKind::kGather; }

/// What this member sends `member` of one tensor, in rows. `slice.parts` is in the order of ranks.
Exchange::Part Exchange::part_for(const Slice& slice, int member) const {
  if (!sends(index()) || !receives(member)) return {0, 0};
  if (same_for_all()) return {0, slice.parts[0]};
  const size_t position = position_of_[static_cast<size_t>(member)];
  return {std::accumulate(slice.parts, slice.parts + position, int64_t{0}), slice.parts[position]};
}

size_t Exchange::bytes_of(std::span<const int64_t> counts) const {
  size_t bytes = 0;
  for (size_t t = 0; t < counts.size(); ++t) bytes += static_cast<size_t>(counts[t]) * row_bytes(t);
  return bytes;
}

std::vector<int64_t> Exchange::counts_to(int member) const {
  std::vector<int64_t> counts;
  for (const Slice& slice : call_.slices) counts.push_back(part_for(slice, member).rows);
  return counts;
}

std::vector<const std::byte*> Exchange::addresses_to(int member) const {
  std::vector<const std::byte*> addresses;
  for (size_t tensor = 0; tensor < tensors(); ++tensor) {
    const Slice& slice = call_.slices[tensor];
    addresses.push_back(slice.in + static_cast<size_t>(part_for(slice, member).begin) * row_bytes(tensor));
  }
  return addresses;
}

Exchange::Stretches Exchange::outgoing(int member) const {
  Stretches stretches;
  for (size_t tensor = 0; tensor < tensors(); ++tensor) {
    const Part part = part_for(call_.slices[tensor], member);
    const size_t bytes = static_cast<size_t>(part.rows) * row_bytes(tensor);
    if (bytes == 0) continue;
    const std::byte* const begin = call_.slices[tensor].in + static_cast<size_t>(part.begin) * row_bytes(tensor);
    stretches.push_back({const_cast<std::byte*>(begin), bytes});
  }
  return stretches;
}

Status Exchange::learn(int from, std::span<const int64_t> counts) {
  for (size_t tensor = 0; tensor < tensors(); ++tensor) {
    if (static_cast<uint64_t>(counts[tensor]) > kMostBytes / std::max<size_t>(1, row_bytes(tensor))) {
      const int rank = team_.ranks[static_cast<size_t>(from)];
      return Status(Code::kPeerLost,
                    "rank " + std::to_string(rank) + " announced " + std::to_string(counts[tensor]) +
                        " rows for tensor " + std::to_string(tensor) + " of a batch, more than 2^47 bytes",
                    rank);
    }
    counts_[at(from, tensor)] = counts[tensor];
  }
  return {};
}

bool Exchange::knows_all() const {
  return std::ranges::all_of(call_.slices, [](const Slice& slice) { return slice.same_rows; });
}

Status Exchange::learn_same() {
  const std::vector<int64_t> own = counts_to(index());
  for (int from = 0; from < size(); ++from) RUEDA_RETURN_IF_ERROR(learn(from, own));
  return {};
}

void Exchange::place(OwnRows own_rows) {
  if (!receives(index())) return;
  const PhaseScope unpacking(call_.phases, WorkPhase::kUnpack);
  std::vector<int64_t> by_position(by_rank_.size());
  for (size_t tensor = 0; tensor < tensors(); ++tensor) {
    const auto count_from = [&](int member) { return counts_[at(member, tensor)]; };
    std::transform(by_rank_.begin(), by_rank_.end(), by_position.begin(), count_from);
    // The caller learns all counts at once and answers with one block; null if it wants nothing of this tensor.
    std::byte* next = call_.arrivals->place(tensor, by_position);
    for (const int member : by_rank_) {
      arriving_[at(member, tensor)] = next;
      if (next != nullptr) next += static_cast<size_t>(count_from(member)) * row_bytes(tensor);
    }
    if (own_rows == OwnRows::kLeave) continue;
    const Part own = part_for(call_.slices[tensor], index());
    const size_t bytes = static_cast<size_t>(own.rows) * row_bytes(tensor);
    std::byte* const to = arriving_[at(index(), tensor)];
    const std::byte* const from = call_.slices[tensor].in + static_cast<size_t>(own.begin) * row_bytes(tensor);
    if (to == nullptr || to == from || bytes == 0) continue;
    std::memcpy(to, from, bytes);
  }
}

Exchange::Stretches Exchange::incoming(int from) const {
  Stretches stretches;
  for (size_t tensor = 0; tensor < tensors(); ++tensor) {
    const size_t bytes = static_cast<size_t>(counts_[at(from, tensor)]) * row_bytes(tensor);
    if (bytes > 0) stretches.push_back({arriving_[at(from, tensor)], bytes});
  }
  return stretches;
}

}  // namespace rueda::core
