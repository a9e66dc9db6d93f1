// Exchanges of rows out of shared memory. A sender posts, for each receiver and tensor, how many rows there are and
// where in its arena they begin; if all receivers get the same, once.
//
//   slot of a sender   | rows begin, rows begin, ...   for receiver 0 | for receiver 1 | ...
//
// A receiver copies the counts and offsets before it checks them: the sender may write to its slot at any time.
#include "ops/cpu/shm_shared_rows.h"

#include <cstring>
#include <string>
#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/shared_batch.h"
#include "ops/cpu/shm_slots.h"
#include "ops/exchange.h"

namespace rueda::core {

namespace {

/// As posted for one tensor.
struct RowsOffset {
  int64_t rows;
  uint64_t begin;  ///< bytes from the arena's base
};

/// In the slot, in numbers of `RowsOffset`: those for `receiver` begin here.
size_t index_for(const Exchange& exchange, int receiver) {
  return exchange.same_for_all() ? 0 : static_cast<size_t>(receiver) * exchange.tensors();
}

size_t bytes_of_rows(const Call& call) {
  const Exchange exchange(call);
  const size_t lists = exchange.same_for_all() ? 1 : static_cast<size_t>(exchange.size());
  return lists * exchange.tensors() * sizeof(RowsOffset);
}

Status post_rows(SharedBatch& batch, std::byte* to) {
  const Exchange exchange(batch.call());
  const Result<TensorArena*> own = batch.own_arena();
  if (!own.ok()) return own.status();
  if (!exchange.sends(exchange.index())) return {};
  for (int receiver = 0; receiver < (exchange.same_for_all() ? 1 : exchange.size()); ++receiver) {
    // Of a gather the root's list is what all read.
    const int whose = exchange.same_for_all() && !exchange.receives(receiver) ? batch.call().root : receiver;
    const std::vector<int64_t> counts = exchange.counts_to(whose);
    const std::vector<const std::byte*> begins = exchange.addresses_to(whose);
    for (size_t t = 0; t < counts.size(); ++t) {
      RowsOffset place{counts[t], 0};
      const size_t bytes = static_cast<size_t>(counts[t]) * exchange.row_bytes(t);
      if (bytes != 0 && !own.value()->contains(begins[t], bytes)) {
        return not_in_arena(t);
      }
      if (bytes != 0) place.begin = static_cast<uint64_t>(begins[t] - own.value()->base());
      std::memcpy(to + (index_for(exchange, receiver) + t) * sizeof place, &place, sizeof place);
    }
  }
  return {};
}

std::vector<RowsOffset> read_rows(const SharedBatch& batch, const Exchange& exchange, int sender) {
  std::vector<RowsOffset> offsets(exchange.tensors());
  const size_t first = index_for(exchange, exchange.index()) * sizeof(RowsOffset);
  std::memcpy(offsets.data(), batch.posted_by(sender).data() + first, offsets.size() * sizeof(RowsOffset));
  return offsets;
}

/// `Exchange::learn` has checked the counts against the longest tensor there can be.
Status copy_rows(SharedBatch& batch, const Exchange& exchange, int sender, std::span<const RowsOffset> offsets) {
  const TensorArena& arena = *batch.arenas()[static_cast<size_t>(sender)];
  const Exchange::Stretches to = exchange.incoming(sender);
  size_t at = 0;
  for (size_t t = 0; t < offsets.size(); ++t) {
    const uint64_t bytes = static_cast<uint64_t>(offsets[t].rows) * exchange.row_bytes(t);
    if (bytes == 0) continue;
    const Exchange::Stretch& stretch = to[at++];
    if (offsets[t].begin > arena.bytes() || bytes > arena.bytes() - offsets[t].begin) {
      const int rank = batch.view().rank_of(sender);
      return Status(Code::kPeerLost,
                    "rank " + std::to_string(rank) + " posted " + std::to_string(bytes) + " bytes of tensor " +
                        std::to_string(t) + " at " + std::to_string(offsets[t].begin) + " of its " +
                        std::to_string(arena.bytes()) + " bytes",
                    rank);
    }
    if (stretch.data != nullptr) std::memcpy(stretch.data, arena.base() + offsets[t].begin, bytes);
  }
  return {};
}

/// Each rank begins with the sender after itself, so that not all read the same one first.
Status collect_rows(SharedBatch& batch) {
  Exchange exchange(batch.call());
  const int size = exchange.size();
  std::vector<std::vector<RowsOffset>> offsets(static_cast<size_t>(size));
  const auto from = [&](int i) { return (exchange.index() + 1 + i) % size; };
  for (int i = 0; i + 1 < size; ++i) {
    if (!exchange.sends(from(i)) || !exchange.receives(exchange.index())) continue;
    std::vector<RowsOffset>& of_sender = offsets[static_cast<size_t>(from(i))];
    of_sender = read_rows(batch, exchange, from(i));
    std::vector<int64_t> counts;
    for (const RowsOffset& place : of_sender) counts.push_back(place.rows);
    RUEDA_RETURN_IF_ERROR(exchange.learn(from(i), counts));
  }
  exchange.place();
  const PhaseScope unpacking(batch.call().phases, WorkPhase::kUnpack);
  for (int i = 0; i + 1 < size; ++i) {
    RUEDA_RETURN_IF_ERROR(copy_rows(batch, exchange, from(i), offsets[static_cast<size_t>(from(i))]));
  }
  return {};
}

constexpr SharedWork kSharedRows = {bytes_of_rows, post_rows, collect_rows};

}  // namespace

/// The number of rows is only known to the ranks, so an exchange of any length takes this way.
bool shm_shared_rows_fits(const BatchShape& shape) {
  const bool same = shape.kind == OpKind::kAllgather || shape.kind == OpKind::kGather;
  const uint64_t lists = same ? 1 : static_cast<uint64_t>(shape.ranks);
  return shm_fits(shape) && shape.shared && lists * shape.tensors * sizeof(RowsOffset) <= shape.slot_bytes;
}

AlgorithmChoice shm_shared_rows_plan(const BatchShape& shape) {
  return plan_chunks(0, static_cast<uint32_t>(shape.slot_bytes));
}

Status shm_shared_rows(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_shared(kSharedRows, call, mesh, deadline);
}

}  // namespace rueda::core
