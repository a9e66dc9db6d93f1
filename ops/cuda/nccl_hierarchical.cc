// Two levels: NCCL reduces inside each host, the owners of slices add up over the network, and NCCL spreads the sums.
//
// clang-format off
//   piece k     reduce to the owner of each slice ─▶ to the host ─▶ sum between hosts ─▶ to the GPU ─▶ broadcast by owners
//
//   stream      R0 H0 R1 H1            G0 B0 R2 H2            G1 B1 ...
//   lane                   sum 0                  sum 1
// clang-format on
//
// The order of NCCL's calls is the same on all members of a host. All is in one stream: a block of pinned memory is
// written by piece k + 2 behind the copy that reads it for piece k. While the lane adds up one piece the GPU reduces
// the next.
//
// So many members of each host own a slice as the smallest host has members; hosts may differ. The owner number i of
// each host adds up with the number i of the others.
#include "ops/cuda/nccl_hierarchical.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/engine/device_times.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::Slice;

/// What one owner has of a piece.
constexpr size_t kOwnedBytes = 4 << 20;

std::vector<int> same_owners(const core::Team& team, const HostPlace& place) {
  std::vector<int> ranks;
  int first = 0;
  for (const int size : team.hosts) {
    if (place.index < size) ranks.push_back(team.ranks[static_cast<size_t>(first) + static_cast<size_t>(place.index)]);
    first += size;
  }
  return ranks;
}

}  // namespace

HostPlace HostPlace::of(const core::Team& team) {
  HostPlace place;
  place.size = team.size();
  place.slices = team.size();
  place.index = team.index;
  int first = 0;
  for (const int size : team.hosts) {
    place.slices = std::min(place.slices, size);
    place.several |= size > 1 && team.hosts.size() > 1;
    if (team.index >= first && team.index < first + size) {
      place.first = first;
      place.size = size;
      place.index = team.index - first;
    }
    first += size;
  }
  return place;
}

Status PinnedPair::make(const core::DeviceFunctions& functions, int32_t index, size_t bytes) {
  if (bytes_ != 0) return {};
  functions_ = &functions;
  index_ = index;
  bytes_ = bytes;
  for (std::byte*& block : blocks_) {
    block = static_cast<std::byte*>(functions.allocate_pinned(functions.context, index, bytes));
    if (block != nullptr) continue;
    Status failure = core::device_error(functions, index, fmt::format("give {} bytes of pinned memory", bytes));
    free();
    return failure;
  }
  return {};
}

void PinnedPair::free() {
  for (std::byte*& block : blocks_) {
    if (block != nullptr) functions_->free_pinned(functions_->context, index_, block, bytes_);
    block = nullptr;
  }
  bytes_ = 0;
}

HierarchicalBatch::HierarchicalBatch(const Call& call, const NcclSum& sum, CUstream stream,
                                     Communicators& communicators, PinnedPair& pinned, core::EngineCall& host)
    : call_(call),
      sum_(sum),
      stream_(stream),
      communicators_(communicators),
      pinned_(pinned),
      host_(host),
      key_{call.device->set, Reach::kHost},
      place_(HostPlace::of(*call.team)),
      element_(core::size_of(call.dtype)),
      piece_(static_cast<int64_t>(kOwnedBytes / element_) * place_.slices),
      op_(sum.op),
      peers_(same_owners(*call.team, place_)) {}

Status HierarchicalBatch::run() {
  if (sum_.scale != 1.0) {
    const Result<NcclOp> scaled = communicators_.scaled_sum(key_, sum_.type, sum_.scale);
    if (!scaled.ok()) return scaled.status();
    op_ = scaled.value();
  }
  if (owns_slice()) {
    RUEDA_RETURN_IF_ERROR(pinned_.make(*call_.device->functions, call_.device->index, kOwnedBytes));
  }
  const core::DevicePhaseScope exchanging(*call_.device, core::DevicePhase::kExchange, stream_);
  const int64_t number = (call_.count + piece_ - 1) / piece_;
  for (int64_t k = 0; k <= number; ++k) {
    if (k < number) {
      RUEDA_RETURN_IF_ERROR(reduce_to_owners(k));
      RUEDA_RETURN_IF_ERROR(fetch(k));
    }
    if (k == 0) continue;
    RUEDA_RETURN_IF_ERROR(sum_between_hosts(k - 1));
    RUEDA_RETURN_IF_ERROR(store(k - 1));
    RUEDA_RETURN_IF_ERROR(spread(k - 1));
  }
  return {};
}

int64_t HierarchicalBatch::count_of(int64_t piece) const { return std::min(piece_, call_.count - piece * piece_); }

/// As even as possible: the last slices of a short piece may be empty.
int64_t HierarchicalBatch::slice_length(int64_t piece, int slice) const {
  const int64_t each = (count_of(piece) + place_.slices - 1) / place_.slices;
  return std::clamp<int64_t>(count_of(piece) - slice * each, 0, each);
}

std::vector<HierarchicalBatch::Part> HierarchicalBatch::parts_of(int64_t piece, int slice) const {
  const int64_t each = (count_of(piece) + place_.slices - 1) / place_.slices;
  const int64_t begin = piece * piece_ + slice * each;
  const int64_t end = begin + slice_length(piece, slice);
  std::vector<Part> parts;
  int64_t at = 0;  // elements of the tensors before this one
  for (const Slice& tensor : call_.slices) {
    const int64_t from = std::max(begin, at);
    const int64_t to = std::min(end, at + tensor.count);
    if (from < to) {
      const auto offset = static_cast<size_t>(from - at) * element_;
      parts.push_back({tensor.in + offset, tensor.out + offset, to - from, from - begin});
    }
    at += tensor.count;
  }
  return parts;
}

Status HierarchicalBatch::for_parts(int64_t piece, const Each& each) {
  std::vector<Communicators::Step> steps;
  for (int owner = 0; owner < place_.slices; ++owner) {
    for (const Part& part : parts_of(piece, owner)) {
      steps.push_back([&each, owner, part](const Nccl& nccl, NcclComm communicator) {
        return each(nccl, communicator, owner, part);
      });
    }
  }
  return communicators_.launch(key_, "allreduce inside the host", steps, Communicators::Grouping::kSeveral, host_);
}

Status HierarchicalBatch::reduce_to_owners(int64_t piece) {
  return for_parts(piece, [this](const Nccl& nccl, NcclComm communicator, int owner, const Part& part) {
    std::byte* const out = owner == place_.index ? part.out : nullptr;
    return nccl.reduce(part.in, out, static_cast<size_t>(part.count) * sum_.parts, sum_.type, op_, owner, communicator,
                       stream_);
  });
}

Status HierarchicalBatch::spread(int64_t piece) {
  return for_parts(piece, [this](const Nccl& nccl, NcclComm communicator, int owner, const Part& part) {
    return nccl.broadcast(part.out, part.out, static_cast<size_t>(part.count) * element_, NcclType::kU8, owner,
                          communicator, stream_);
  });
}

Status HierarchicalBatch::copy(void* to, const void* from, int64_t elements) {
  const core::DeviceFunctions& functions = *call_.device->functions;
  const auto bytes = static_cast<size_t>(elements) * element_;
  if (functions.copy(functions.context, call_.device->index, to, from, bytes, stream_) == 0) return {};
  return core::device_error(functions, call_.device->index, fmt::format("copy {} bytes", bytes));
}

Status HierarchicalBatch::fetch(int64_t piece) {
  if (!owns_slice()) return {};
  std::byte* const block = pinned_.block(piece);
  for (const Part& part : parts_of(piece, place_.index)) {
    RUEDA_RETURN_IF_ERROR(copy(block + static_cast<size_t>(part.at) * element_, part.out, part.count));
  }
  const auto mark = core::make_mark(*call_.device->functions, call_.device->index, stream_);
  if (mark.ok()) fetched_[static_cast<size_t>(piece % 2)] = mark.value();
  return mark.status();
}

Status HierarchicalBatch::sum_between_hosts(int64_t piece) {
  if (!owns_slice()) return {};
  Status failure;
  RUEDA_RETURN_IF_ERROR(host_.until([&] {
    const Result<bool> passed = fetched_[static_cast<size_t>(piece % 2)]->passed();
    failure = passed.status();
    return !passed.ok() || passed.value();
  }));
  RUEDA_RETURN_IF_ERROR(failure);
  return host_.sum_between_hosts(pinned_.block(piece), slice_length(piece, place_.index), peers_);
}

Status HierarchicalBatch::store(int64_t piece) {
  if (!owns_slice()) return {};
  const std::byte* const block = pinned_.block(piece);
  for (const Part& part : parts_of(piece, place_.index)) {
    RUEDA_RETURN_IF_ERROR(copy(part.out, block + static_cast<size_t>(part.at) * element_, part.count));
  }
  return {};
}

}  // namespace rueda::cuda
