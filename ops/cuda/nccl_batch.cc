// Turns a batch into calls of NCCL.
//
//   all-reduce, broadcast, send     one call for each tensor
//   reduce                          one call for each tensor, to the root
//   reduce-scatter                  one call if all get as many rows, else a reduce to each owner of rows
//   all-gather of equal parts       one call for each tensor: the number of rows is agreed on
//   all-gather, all-to-all,         the members tell each other their numbers of rows, through the host; then sends and
//   gather, scatter                 receives of rows in one group. NCCL never sees a tensor whose length is not agreed
//
// Long lists of calls are cut into several groups, on all members alike: two members whose groups differ would wait for
// each other.
#include "ops/cuda/nccl_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/owner_parts.h"
#include "runtime/engine/device_times.h"

namespace rueda::cuda {
namespace {

using core::Call;
using core::Code;
using core::Exchange;
using core::OpKind;
using core::OwnerParts;
using core::Slice;
using Grouping = Communicators::Grouping;

/// Members whose ranks ascend get rows in the order in which NCCL deals them out.
bool ascends(const core::Team& team) { return std::ranges::is_sorted(team.ranks); }

bool dealt_evenly(const OwnerParts& parts, size_t tensor) {
  for (int owner = 1; owner < parts.size(); ++owner) {
    if (parts.of(owner)[tensor].count != parts.of(0)[tensor].count) return false;
  }
  return true;
}

/// Memory for rows that nobody wants, which come all the same. It is freed behind them in the stream.
class Dropped {
 public:
  Dropped(const core::DeviceCall& device, CUstream stream)
      : functions_(*device.functions), index_(device.index), stream_(stream) {}
  ~Dropped() {
    for (void* const memory : taken_) functions_.free(functions_.context, index_, memory, stream_);
  }
  Dropped(const Dropped&) = delete;
  Dropped& operator=(const Dropped&) = delete;
  /// Returns null if there is none.
  std::byte* take(size_t bytes) {
    void* const memory = functions_.allocate(functions_.context, index_, bytes, stream_);
    if (memory != nullptr) taken_.push_back(memory);
    return static_cast<std::byte*>(memory);
  }

 private:
  const core::DeviceFunctions& functions_;
  const int32_t index_;
  const CUstream stream_;
  std::vector<void*> taken_;
};

std::optional<NcclSum> sum_if_any(const Call& call) {
  if (!core::reduces(call.kind)) return {};
  return nccl_sum_of(call);
}

}  // namespace

NcclBatch::NcclBatch(const Call& call, CUstream stream, Communicators& communicators, core::EngineCall& host)
    : call_(call),
      stream_(stream),
      communicators_(communicators),
      host_(host),
      key_{call.device->set, Reach::kSet},
      sum_(sum_if_any(call)) {}

Status NcclBatch::launch() {
  const core::DevicePhaseScope exchanging(*call_.device, core::DevicePhase::kExchange, stream_);
  if (core::reduces(call_.kind)) return launch_reduction();
  if (core::exchanges(call_.kind)) return exchange_rows();
  add_moves();
  return launch_steps(Grouping::kSeveral);
}

Status NcclBatch::launch_reduction() {
  op_ = sum_->op;
  if (sum_->scale != 1.0) {
    const Result<NcclOp> scaled = communicators_.scaled_sum(key_, sum_->type, sum_->scale);
    if (!scaled.ok()) return scaled.status();
    op_ = scaled.value();
  }
  if (call_.kind == OpKind::kAllreduce) {
    add_sums();
  } else {
    add_sums_of_parts();
  }
  return launch_steps(Grouping::kSeveral);
}

void NcclBatch::add_sums() {
  for (const Slice& slice : call_.slices) {
    if (slice.count == 0) continue;
    steps_.push_back([this, slice](const Nccl& nccl, NcclComm communicator) {
      return nccl.all_reduce(slice.in, slice.out, static_cast<size_t>(slice.count) * sum_->parts, sum_->type, op_,
                             communicator, stream_);
    });
  }
}

/// Of a reduce the root owns all; of a reduce-scatter each member its rows.
void NcclBatch::add_sums_of_parts() {
  const OwnerParts parts(call_);
  for (size_t tensor = 0; tensor < call_.slices.size(); ++tensor) {
    const bool at_once = call_.kind == OpKind::kReducescatter && ascends(*call_.team) && dealt_evenly(parts, tensor);
    if (at_once) {
      const Slice own = parts.of(call_.team->index)[tensor];
      if (own.count == 0) continue;
      steps_.push_back([this, own, in = call_.slices[tensor].in](const Nccl& nccl, NcclComm communicator) {
        return nccl.reduce_scatter(in, own.out, static_cast<size_t>(own.count) * sum_->parts, sum_->type, op_,
                                   communicator, stream_);
      });
      continue;
    }
    for (int owner = 0; owner < parts.size(); ++owner) {
      const Slice part = parts.of(owner)[tensor];
      if (part.count == 0) continue;
      steps_.push_back([this, part, owner](const Nccl& nccl, NcclComm communicator) {
        std::byte* const out = owner == call_.team->index ? part.out : nullptr;
        return nccl.reduce(part.in, out, static_cast<size_t>(part.count) * sum_->parts, sum_->type, op_, owner,
                           communicator, stream_);
      });
    }
  }
}

/// Bytes, whatever the type.
void NcclBatch::add_moves() {
  const size_t element = core::size_of(call_.dtype);
  const bool is_root = call_.root == call_.team->index;
  for (const Slice& slice : call_.slices) {
    const size_t bytes = static_cast<size_t>(slice.count) * element;
    if (bytes == 0) continue;
    steps_.push_back([this, slice, bytes, is_root](const Nccl& nccl, NcclComm communicator) {
      if (call_.kind == OpKind::kBroadcast) {
        return nccl.broadcast(is_root ? slice.in : slice.out, slice.out, bytes, NcclType::kU8, call_.root, communicator,
                              stream_);
      }
      if (!is_root) return nccl.receive(slice.out, bytes, NcclType::kU8, call_.root, communicator, stream_);
      return nccl.send(slice.in, bytes, NcclType::kU8, 1 - call_.root, communicator, stream_);
    });
  }
}

Status NcclBatch::exchange_rows() {
  Exchange exchange(call_);
  const bool agreed = exchange.knows_all();
  RUEDA_RETURN_IF_ERROR(agreed ? exchange.learn_same() : learn_counts(exchange));
  const size_t before = call_.device->late.size();
  exchange.place(Exchange::OwnRows::kLeave);
  const core::DeviceCall& device = *call_.device;
  for (size_t i = before; i < device.late.size(); ++i) {  // memory that was allocated just now
    RUEDA_RETURN_IF_ERROR(core::order_after(*device.functions, device.index, device.late[i]->token(), stream_));
  }
  if (agreed && ascends(*call_.team)) return gather_at_once(exchange);
  RUEDA_RETURN_IF_ERROR(copy_own_rows(exchange));
  return launch_rows(exchange);
}

/// NCCL copies the own rows, unless they are in their place.
Status NcclBatch::gather_at_once(const Exchange& exchange) {
  Dropped dropped(*call_.device, stream_);
  for (size_t tensor = 0; tensor < exchange.tensors(); ++tensor) {
    const Slice& slice = call_.slices[tensor];
    const size_t bytes = static_cast<size_t>(slice.parts[0]) * exchange.row_bytes(tensor);
    if (bytes == 0) continue;  // no columns, on all members
    std::byte* out = exchange.arriving(tensor);
    const size_t all = bytes * static_cast<size_t>(exchange.size());
    if (out == nullptr) out = dropped.take(all);
    if (out == nullptr) return no_memory(all, "all ranks send");
    steps_.push_back([this, in = slice.in, out, bytes](const Nccl& nccl, NcclComm communicator) {
      return nccl.all_gather(in, out, bytes, NcclType::kU8, communicator, stream_);
    });
  }
  return launch_steps(Grouping::kSeveral);
}

/// Each member tells what it sends: one number for each tensor if all get the same, else one for each member and
/// tensor.
Status NcclBatch::learn_counts(Exchange& exchange) {
  const int members = exchange.size();
  const int lists = exchange.same_for_all() ? 1 : members;
  const size_t each = core::EngineCall::told_of_counts(static_cast<size_t>(lists) * exchange.tensors());
  std::vector<std::byte> all(static_cast<size_t>(members) * each);
  std::byte* own = all.data() + static_cast<size_t>(exchange.index()) * each;
  for (int to = 0; to < lists; ++to) {
    const std::vector<int64_t> counts = exchange.counts_to(call_.kind == OpKind::kGather ? call_.root : to);
    std::memcpy(own, counts.data(), counts.size() * sizeof(int64_t));
    own += counts.size() * sizeof(int64_t);
  }
  RUEDA_RETURN_IF_ERROR(host_.tell_all(all));
  std::vector<int64_t> counts(exchange.tensors());
  for (int from = 0; from < members; ++from) {
    if (!exchange.sends(from) || !exchange.receives(exchange.index())) continue;
    const size_t list = lists == 1 ? 0 : static_cast<size_t>(exchange.index()) * exchange.tensors();
    std::memcpy(counts.data(), all.data() + static_cast<size_t>(from) * each + list * sizeof(int64_t),
                counts.size() * sizeof(int64_t));
    RUEDA_RETURN_IF_ERROR(exchange.learn(from, counts));
  }
  return {};
}

/// On the GPU, behind the inputs as the rest.
Status NcclBatch::copy_own_rows(Exchange& exchange) {
  const Exchange::Stretches from = exchange.outgoing(exchange.index());
  const Exchange::Stretches to = exchange.incoming(exchange.index());
  if (!exchange.receives(exchange.index())) return {};
  for (size_t i = 0; i < from.size(); ++i) {
    if (to[i].data == nullptr || to[i].data == from[i].data) continue;
    const core::DeviceFunctions& functions = *call_.device->functions;
    if (functions.copy(functions.context, call_.device->index, to[i].data, from[i].data, from[i].bytes, stream_) != 0) {
      return core::device_error(functions, call_.device->index, "copy the rows that a rank sends itself");
    }
  }
  return {};
}

Status NcclBatch::launch_rows(Exchange& exchange) {
  Dropped dropped(*call_.device, stream_);
  for (int member = 0; member < exchange.size(); ++member) {
    if (member == exchange.index()) continue;
    for (const Exchange::Stretch& out : exchange.outgoing(member)) {
      steps_.push_back([this, out, member](const Nccl& nccl, NcclComm communicator) {
        return nccl.send(out.data, out.bytes, NcclType::kU8, member, communicator, stream_);
      });
    }
    const Exchange::Stretches arriving = exchange.incoming(member);
    for (Exchange::Stretch in : arriving) {
      if (in.data == nullptr) {
        in.data = dropped.take(in.bytes);
        if (in.data == nullptr) {
          const int rank = call_.team->ranks[static_cast<size_t>(member)];
          return no_memory(in.bytes, fmt::format("rank {} sends", rank));
        }
      }
      steps_.push_back([this, in, member](const Nccl& nccl, NcclComm communicator) {
        return nccl.receive(in.data, in.bytes, NcclType::kU8, member, communicator, stream_);
      });
    }
  }
  return launch_steps(Grouping::kOne);  // what a member sends the other receives in the same group
}

Status NcclBatch::launch_steps(Grouping grouping) {
  return communicators_.launch(key_, core::name_of(call_.kind), steps_, grouping, host_);
}

Status NcclBatch::no_memory(size_t bytes, const std::string& sent) const {
  return core::device_error(*call_.device->functions, call_.device->index,
                            fmt::format("give {} bytes for rows that {} and nobody takes", bytes, sent));
}

}  // namespace rueda::cuda
