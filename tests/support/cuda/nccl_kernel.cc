// Every operation is made of messages between pairs of ranks: to reduce, all ranks send what they have to those who
// need the result, which fold in the order of ranks.
#include "tests/support/cuda/nccl_kernel.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>

#include "runtime/base/half.h"

namespace rueda::test {
namespace {

using cuda::NcclOp;
using cuda::NcclType;
using Kind = NcclOperation::Kind;

double load(NcclType type, const std::byte* from) {
  const auto as = [from](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (type) {
    case NcclType::kF16: return core::f16_to_f32({as(uint16_t{})});
    case NcclType::kBf16: return core::bf16_to_f32({as(uint16_t{})});
    case NcclType::kF32: return as(float{});
    default: return as(double{});
  }
}

void store(NcclType type, double value, std::byte* to) {
  const auto put = [to](auto number) { std::memcpy(to, &number, sizeof number); };
  switch (type) {
    case NcclType::kF16: return put(core::f64_to_f16(value).bits);
    case NcclType::kBf16: return put(core::f64_to_bf16(value).bits);
    case NcclType::kF32: return put(static_cast<float>(value));
    default: return put(value);
  }
}

template <typename T>
T combine(NcclOp op, T first, T second) {
  switch (op) {
    case NcclOp::kProduct: return static_cast<T>(first * second);
    case NcclOp::kMax: return std::max(first, second);
    case NcclOp::kMin: return std::min(first, second);
    default: return static_cast<T>(first + second);
  }
}

/// Sums and products wrap.
template <typename T>
T combine_integers(NcclOp op, T first, T second) {
  if (op == NcclOp::kMax || op == NcclOp::kMin) return combine(op, first, second);
  return static_cast<T>(combine(op, static_cast<uint64_t>(first), static_cast<uint64_t>(second)));
}

template <typename T>
void fold_integers(NcclOp op, const std::vector<const std::byte*>& inputs, std::byte* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T total{};
    for (size_t r = 0; r < inputs.size(); ++r) {
      T value;
      std::memcpy(&value, inputs[r] + i * sizeof(T), sizeof(T));
      total = r == 0 ? value : combine_integers(op, total, value);
    }
    std::memcpy(out + i * sizeof(T), &total, sizeof(T));
  }
}

void fold(const NcclOperation& each, const std::vector<const std::byte*>& inputs, std::byte* out) {
  switch (each.type) {
    case NcclType::kI8: return fold_integers<int8_t>(each.op, inputs, out, each.count);
    case NcclType::kU8: return fold_integers<uint8_t>(each.op, inputs, out, each.count);
    case NcclType::kI32: return fold_integers<int32_t>(each.op, inputs, out, each.count);
    case NcclType::kU32: return fold_integers<uint32_t>(each.op, inputs, out, each.count);
    case NcclType::kI64: return fold_integers<int64_t>(each.op, inputs, out, each.count);
    case NcclType::kU64: return fold_integers<uint64_t>(each.op, inputs, out, each.count);
    default: break;
  }
  const size_t size = size_of(each.type);
  for (size_t i = 0; i < each.count; ++i) {
    double total = 0;
    for (size_t r = 0; r < inputs.size(); ++r) {
      const double value = load(each.type, inputs[r] + i * size) * each.scale;
      total = r == 0 ? value : combine(each.op, total, value);
    }
    store(each.type, total, out + i * size);
  }
}

/// What an operation is made of on this rank: its messages, and what is left to do when they have come.
class Work {
 public:
  Work(Board& board, int ranks, int rank, const NcclOperation& each, std::vector<Transfer>& transfers)
      : board_(board),
        ranks_(ranks),
        rank_(rank),
        each_(each),
        bytes_(each.count * size_of(each.type)),
        transfers_(transfers) {
    begin();
  }

  void finish() {
    if (each_.kind == Kind::kAllGather) {
      for (int r = 0; r < ranks_; ++r)
        std::memcpy(each_.out + static_cast<size_t>(r) * bytes_, arrived_[static_cast<size_t>(r)].data(), bytes_);
      return;
    }
    if (arrived_.empty()) return;
    std::vector<const std::byte*> inputs;
    for (const auto& from : arrived_) inputs.push_back(from.data());
    fold(each_, inputs, each_.out);
  }

  /// What an abort leaves in the output.
  void spoil() {
    const bool writes = !arrived_.empty() || each_.kind == Kind::kReceive || each_.kind == Kind::kBroadcast;
    const size_t pieces = each_.kind == Kind::kAllGather ? static_cast<size_t>(ranks_) : 1;
    if (writes) std::memset(each_.out, 0x5a, pieces * bytes_);
  }

 private:
  void begin() {
    const auto all = [](int) { return true; };
    switch (each_.kind) {
      case Kind::kSend: return send(each_.peer, each_.in);
      case Kind::kReceive: return receive(each_.peer, each_.out);
      case Kind::kBroadcast: return broadcast();
      case Kind::kAllGather: return gather();
      case Kind::kReduceScatter: return reduce(all, true);
      case Kind::kAllReduce: return reduce(all, false);
      case Kind::kReduce: return reduce([this](int to) { return to == each_.peer; }, false);
    }
  }
  void send(int to, const std::byte* from) {
    transfers_.push_back(Transfer::send(board_.boxes[static_cast<size_t>(rank_)][static_cast<size_t>(to)], from, bytes_,
                                        each_.registered));
  }
  void receive(int from, std::byte* to) {
    transfers_.push_back(Transfer::receive(board_.boxes[static_cast<size_t>(from)][static_cast<size_t>(rank_)], to,
                                           bytes_, each_.registered));
  }
  /// Own input is copied: the output may be the same memory.
  void take_all(const std::byte* own) {
    arrived_.resize(static_cast<size_t>(ranks_));
    for (int r = 0; r < ranks_; ++r) {
      arrived_[static_cast<size_t>(r)].resize(bytes_);
      if (r != rank_) receive(r, arrived_[static_cast<size_t>(r)].data());
    }
    std::memcpy(arrived_[static_cast<size_t>(rank_)].data(), own, bytes_);
  }
  void broadcast() {
    if (rank_ != each_.peer) return receive(each_.peer, each_.out);
    for (int r = 0; r < ranks_; ++r) {
      if (r != rank_) send(r, each_.in);
    }
    if (each_.out != each_.in) std::memmove(each_.out, each_.in, bytes_);
  }
  void gather() {
    take_all(each_.in);
    for (int r = 0; r < ranks_; ++r) {
      if (r != rank_) send(r, each_.in);
    }
  }
  template <typename Wanted>
  void reduce(Wanted&& wanted, bool in_slices) {
    const auto part_for = [&](int r) { return each_.in + (in_slices ? static_cast<size_t>(r) * bytes_ : 0); };
    for (int r = 0; r < ranks_; ++r) {
      if (r != rank_ && wanted(r)) send(r, part_for(r));
    }
    if (wanted(rank_)) take_all(part_for(rank_));
  }

  Board& board_;
  int ranks_;
  int rank_;
  const NcclOperation& each_;
  size_t bytes_;
  std::vector<Transfer>& transfers_;
  std::vector<std::vector<std::byte>> arrived_;
};

/// Moves what can be moved; between two ranks the first message first.
bool move_some(std::vector<Transfer>& transfers, NcclFaults& faults) {
  bool moved = false;
  std::set<std::pair<const Box*, bool>> busy;
  for (Transfer& transfer : transfers) {
    if (transfer.done() || !busy.emplace(transfer.box(), transfer.sends()).second) continue;
    moved |= transfer.step(faults);
  }
  return moved;
}

}  // namespace

size_t size_of(NcclType type) {
  switch (type) {
    case NcclType::kI8:
    case NcclType::kU8: return 1;
    case NcclType::kF16:
    case NcclType::kBf16: return 2;
    case NcclType::kI32:
    case NcclType::kU32:
    case NcclType::kF32: return 4;
    default: return 8;
  }
}

bool run_nccl_kernel(Board& board, int ranks, int rank, const std::vector<NcclOperation>& group,
                     const std::atomic<bool>& stop, NcclFaults& faults) {
  std::vector<Transfer> transfers;
  std::vector<Work> works;
  for (const NcclOperation& each : group) works.emplace_back(board, ranks, rank, each, transfers);
  std::mutex mutex;
  std::condition_variable never;
  for (;;) {
    if (stop.load()) {
      for (Work& work : works) work.spoil();
      return false;
    }
    const bool moved = move_some(transfers, faults);
    if (faults.any()) return false;
    if (std::all_of(transfers.begin(), transfers.end(), [](const Transfer& each) { return each.done(); })) break;
    std::unique_lock lock(mutex);
    if (!moved) never.wait_for(lock, std::chrono::microseconds(20));  // other processes ring no bell here
  }
  for (Work& work : works) work.finish();
  return true;
}

}  // namespace rueda::test
