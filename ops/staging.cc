// Operations that treat every element alike go in pieces, so that both directions of the bus and the network work at
// the same time:
//
//   device's stream to the host      | copy 0 | copy 1 | copy 2 |
//   lane                                      | host algorithm 0 | host algorithm 1 | ...
//   device's stream from the host                                | copy 0 |         | copy 1 | ...
//
// The order of the device's work comes from its streams alone: both wait for the inputs' marks, which also stand behind
// the last use of the outputs, and nothing is put into a stream of the caller's. The lane waits for copies to the host
// and never for those from it.
//
// All ranks cut alike, since the cut is a function of kind, operator and bytes. Operations that deal rows out or move
// them, and adaptive sums, which look at whole tensors, go in one piece.
#include "ops/staging.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/owner_parts.h"
#include "ops/staged_copies.h"
#include "runtime/base/reduction.h"

namespace rueda::core {
namespace {

constexpr uint64_t kStagedPieceBytes = 4 << 20;
constexpr size_t kStagedAlignment = 64;  // what tensors in one block are aligned to

bool goes_in_pieces(OpKind kind, ReduceOp op) {
  return (kind == OpKind::kAllreduce && op != ReduceOp::kAdasum) || kind == OpKind::kBroadcast || kind == OpKind::kSend;
}

/// A piece of a batch on the host.
struct Piece {
  StagedBlock block{nullptr};
  std::shared_ptr<const DeviceMark> fetched;  ///< null if nothing had to be copied
};

/// Runs a batch. If it fails, by an error or by an exception, the device may still copy: `let_go` waits until it does
/// not, because tensors and blocks are free then.
template <typename Run, typename LetGo>
Status run_or_let_go(Run&& run, LetGo&& let_go) {
  try {
    Status result = run();
    if (!result.ok()) let_go();
    return result;
  } catch (...) {
    let_go();
    throw;
  }
}

/// A batch in pieces: elements [k * length, ...) of all its tensors in a row.
class InPieces {
 public:
  InPieces(const Algorithm& algorithm, const Call& call, Mesh& mesh, Deadline deadline, PinnedBlocks& blocks)
      : algorithm_(algorithm),
        call_(call),
        mesh_(mesh),
        deadline_(deadline),
        blocks_(blocks),
        copies_(call),
        element_(size_of(call.dtype)),
        length_(static_cast<int64_t>(kStagedPieceBytes / element_)),
        number_(Staging::pieces(call.kind, call.op, static_cast<uint64_t>(call.count) * element_)),
        is_root_(call.root == call.team->index) {}

  Status run() {
    return run_or_let_go([this] { return run_all(); }, [this] { let_go(); });
  }

 private:
  void let_go() {
    copies_.finish_all();
    for (Piece* piece : {&piece_, &next_}) copies_.still_use(piece->block);
  }

  Status run_all() {
    RUEDA_RETURN_IF_ERROR(copies_.begin());
    RUEDA_RETURN_IF_ERROR(fetch(0, piece_));
    for (int64_t k = 0; k < number_; ++k) {
      if (k + 1 < number_) RUEDA_RETURN_IF_ERROR(fetch(k + 1, next_));
      if (piece_.fetched != nullptr) RUEDA_RETURN_IF_ERROR(await_mark(*piece_.fetched, mesh_, deadline_));
      RUEDA_RETURN_IF_ERROR(on_host(piece_, k));
      RUEDA_RETURN_IF_ERROR(store(piece_, k));
      piece_ = std::exchange(next_, Piece());
    }
    return {};
  }

  bool reads() const { return reduces(call_.kind) || is_root_; }
  int64_t begin(int64_t k) const { return k * length_; }
  int64_t count(int64_t k) const { return std::min(length_, call_.count - begin(k)); }

  /// Calls `copy(slice, first element in it, elements, offset in the piece)` for each part of a tensor in piece `k`.
  template <typename Copy>
  Status for_parts(int64_t k, Copy&& copy) {
    int64_t at = 0;
    const int64_t end = begin(k) + count(k);
    for (const Slice& slice : call_.slices) {
      const int64_t from = std::max(begin(k), at);
      const int64_t to = std::min(end, at + slice.count);
      if (from < to) RUEDA_RETURN_IF_ERROR(copy(slice, from - at, to - from, from - begin(k)));
      at += slice.count;
    }
    return {};
  }
  size_t bytes(int64_t elements) const { return static_cast<size_t>(elements) * element_; }

  Status fetch(int64_t k, Piece& piece) {
    const Result<PinnedBlocks::Block*> block =
        blocks_.take(*call_.device->functions, call_.device->index, bytes(count(k)), mesh_, deadline_);
    if (!block.ok()) return block.status();
    piece.block = StagedBlock(block.value());
    if (!reads() || count(k) == 0) return {};
    RUEDA_RETURN_IF_ERROR(copy_piece(k, piece));
    auto mark = copies_.mark_to_host();
    if (!mark.ok()) return mark.status();
    piece.fetched = std::move(mark).value();
    piece.block.busy(piece.fetched);  // if the epoch ends before the lane has waited for it
    return {};
  }

  Status copy_piece(int64_t k, Piece& piece) {
    const DevicePhaseScope packing = copies_.packing();
    return for_parts(k, [&](const Slice& slice, int64_t first, int64_t elements, int64_t offset) {
      return copies_.to_host(piece.block.memory() + bytes(offset), slice.in + bytes(first), bytes(elements));
    });
  }

  Status on_host(Piece& piece, int64_t k) {
    Slice slice{piece.block.memory(), piece.block.memory(), count(k)};
    Call host = call_;
    host.device = nullptr;
    host.slices = std::span<const Slice>(&slice, 1);
    host.count = slice.count;
    host.choice.stamps = call_.choice.stamps / static_cast<uint64_t>(number_);
    host.stamp = call_.stamp + static_cast<uint64_t>(k) * host.choice.stamps;
    const HostPieceScope exchanging(*call_.device, DevicePhase::kExchange);
    return algorithm_.run(host, mesh_, deadline_);
  }

  /// A root that sends from where its result belongs has that there already.
  Status copy_back(Piece& piece, int64_t k) {
    const DevicePhaseScope unpacking = copies_.unpacking();
    return for_parts(k, [&](const Slice& slice, int64_t first, int64_t elements, int64_t offset) {
      if (!reduces(call_.kind) && is_root_ && slice.in == slice.out) return Status();
      return copies_.from_host(slice.out + bytes(first), piece.block.memory() + bytes(offset), bytes(elements));
    });
  }

  Status store(Piece& piece, int64_t k) {
    RUEDA_RETURN_IF_ERROR(copy_back(piece, k));
    auto mark = copies_.mark_from_host();
    if (!mark.ok()) return mark.status();
    call_.device->finished = mark.value();
    piece.block.busy(std::move(mark).value());
    return {};
  }

  const Algorithm& algorithm_;
  const Call& call_;
  Mesh& mesh_;
  const Deadline deadline_;
  PinnedBlocks& blocks_;
  StagedCopies copies_;
  const size_t element_;
  const int64_t length_;
  const int64_t number_;
  const bool is_root_;
  Piece piece_, next_;  ///< the one that is on the host, and the one that is fetched meanwhile
};

/// A batch in one piece: each tensor, and each output, in memory of its own.
class AsWhole : private Arrivals {
 public:
  AsWhole(const Call& call, Mesh& mesh, Deadline deadline, PinnedBlocks& blocks)
      : call_(call), mesh_(mesh), deadline_(deadline), blocks_(blocks), copies_(call), element_(size_of(call.dtype)) {}

  Status run(const Algorithm& algorithm) {
    return run_or_let_go([&] { return run_all(algorithm); }, [this] { let_go(); });
  }

 private:
  void let_go() {
    copies_.finish_all();
    for (StagedBlock& block : held_) copies_.still_use(block);
  }

  Status run_all(const Algorithm& algorithm) {
    RUEDA_RETURN_IF_ERROR(copies_.begin());
    const bool moves_rows = exchanges(call_.kind);
    RUEDA_RETURN_IF_ERROR(fetch_all());
    RUEDA_RETURN_IF_ERROR(await_copies());
    Call host = call_;
    host.device = nullptr;
    host.slices = slices_;
    if (moves_rows) host.arrivals = this;
    RUEDA_RETURN_IF_ERROR(on_host(algorithm, host));
    RUEDA_RETURN_IF_ERROR(failure_);
    RUEDA_RETURN_IF_ERROR(moves_rows ? store_arrivals() : store_parts());
    return finish();
  }

  Status on_host(const Algorithm& algorithm, const Call& host) {
    const HostPieceScope exchanging(*call_.device, DevicePhase::kExchange);
    return algorithm.run(host, mesh_, deadline_);
  }

  Status fetch_all() {
    const DevicePhaseScope packing = copies_.packing();
    for (const Slice& slice : call_.slices) {
      Slice host = slice;
      host.in = host.out = nullptr;
      RUEDA_RETURN_IF_ERROR(fetch(slice, host));
      slices_.push_back(host);
    }
    return {};
  }

  /// Small tensors share blocks.
  Result<std::byte*> block_of(size_t bytes) {
    const size_t room = std::max<size_t>(1, (bytes + kStagedAlignment - 1) / kStagedAlignment) * kStagedAlignment;
    if (room > left_) {
      const auto block = blocks_.take(*call_.device->functions, call_.device->index, room, mesh_, deadline_);
      if (!block.ok()) return block.status();
      held_.emplace_back(block.value());
      next_ = block.value()->memory;
      left_ = block.value()->bytes;
    }
    left_ -= room;
    return std::exchange(next_, next_ + room);
  }
  /// The elements that this rank brings: in an exchange the rows for others; a receiver may have none.
  int64_t brings(const Slice& slice) const {
    if (!exchanges(call_.kind)) return slice.count;
    if (call_.kind == OpKind::kScatter && call_.root != call_.team->index) return 0;
    return slice.in == nullptr ? 0 : slice.count;
  }

  /// The output of a reduction lies where its input lay, as in an operation in place.
  Status fetch(const Slice& slice, Slice& host) {
    const size_t bytes = static_cast<size_t>(brings(slice)) * element_;
    const Result<std::byte*> in = block_of(bytes);
    if (!in.ok()) return in.status();
    host.in = in.value();
    RUEDA_RETURN_IF_ERROR(copies_.to_host(in.value(), slice.in, bytes));
    if (exchanges(call_.kind)) return {};
    const Result<std::byte*> out = block_of(bytes);
    if (!out.ok()) return out.status();
    host.out = out.value();
    return {};
  }

  Status await_copies() {
    auto mark = copies_.mark_to_host();
    if (!mark.ok()) return mark.status();
    for (StagedBlock& held : held_) held.busy(mark.value());
    return await_mark(*mark.value(), mesh_, deadline_);
  }

  /// Rows arrive on the host, in memory of their own, and the caller's memory is asked for now, with the same answer.
  std::byte* place(size_t tensor, std::span<const int64_t> rows) override {
    std::byte* const target = call_.arrivals->place(tensor, rows);
    int64_t count = 0;
    for (const int64_t each : rows) count += each * call_.slices[tensor].row;
    const size_t bytes = static_cast<size_t>(count) * element_;
    if (target == nullptr || bytes == 0) return nullptr;
    const Result<std::byte*> block = block_of(bytes);
    if (!block.ok()) {
      failure_ = block.status();
      return nullptr;
    }
    arrived_.push_back({target, block.value(), bytes});
    return block.value();
  }

  Status store_arrivals() {
    RUEDA_RETURN_IF_ERROR(copies_.order_late());
    const DevicePhaseScope unpacking = copies_.unpacking();
    for (const Arrived& each : arrived_) {
      RUEDA_RETURN_IF_ERROR(copies_.from_host(each.target, each.block, each.bytes));
    }
    return {};
  }

  /// Of a reduction this rank has its own part: all, its rows, or nothing.
  Status store_parts() {
    const DevicePhaseScope unpacking = copies_.unpacking();
    if (call_.kind == OpKind::kAllreduce) {
      for (size_t i = 0; i < slices_.size(); ++i) {
        const size_t bytes = static_cast<size_t>(slices_[i].count) * element_;
        RUEDA_RETURN_IF_ERROR(copies_.from_host(call_.slices[i].out, slices_[i].out, bytes));
      }
      return {};
    }
    const OwnerParts parts(call_);
    const std::span<const Slice> own = parts.of(call_.team->index);
    for (size_t i = 0; i < slices_.size(); ++i) {
      const size_t bytes = static_cast<size_t>(own[i].count) * element_;
      RUEDA_RETURN_IF_ERROR(copies_.from_host(own[i].out, slices_[i].out, bytes));
    }
    return {};
  }

  Status finish() {
    auto mark = copies_.mark_from_host();
    if (!mark.ok()) return mark.status();
    for (StagedBlock& held : held_) held.busy(mark.value());
    call_.device->finished = std::move(mark).value();
    return {};
  }

  struct Arrived {
    std::byte* target;
    std::byte* block;
    size_t bytes;
  };
  const Call& call_;
  Mesh& mesh_;
  const Deadline deadline_;
  PinnedBlocks& blocks_;
  StagedCopies copies_;
  const size_t element_;
  std::vector<StagedBlock> held_;
  std::byte* next_ = nullptr;  ///< what is free of the last block
  size_t left_ = 0;
  std::vector<Slice> slices_;
  std::vector<Arrived> arrived_;
  Status failure_;
};

}  // namespace

BatchShape Staging::piece_shape(const BatchShape& shape) {
  BatchShape piece = shape;
  piece.device = -1;
  if (goes_in_pieces(shape.kind, shape.op)) piece.bytes = std::min(shape.bytes, kStagedPieceBytes);
  return piece;
}

int64_t Staging::pieces(OpKind kind, ReduceOp op, uint64_t bytes) {
  if (!goes_in_pieces(kind, op)) return 1;
  return static_cast<int64_t>(std::max<uint64_t>(1, (bytes + kStagedPieceBytes - 1) / kStagedPieceBytes));
}

Status Staging::run(const Algorithm& algorithm, const Call& call, Mesh& mesh, Deadline deadline) {
  if (goes_in_pieces(call.kind, call.op)) return InPieces(algorithm, call, mesh, deadline, blocks_).run();
  return AsWhole(call, mesh, deadline, blocks_).run(algorithm);
}

}  // namespace rueda::core
