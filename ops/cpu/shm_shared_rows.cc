// Exchanges of rows out of shared memory. A sender posts, for each receiver and tensor, how many rows there are and
// where in its arena they begin; if all receivers get the same, once. shared_rows.h has what is posted.
#include "ops/cpu/shm_shared_rows.h"

#include <cstring>
#include <vector>

#include "ops/chunks.h"
#include "ops/cpu/shared_batch.h"
#include "ops/cpu/shared_rows.h"
#include "ops/cpu/shm_slots.h"
#include "ops/exchange.h"

namespace rueda::core {

namespace {

size_t bytes_to_post(const Call& call) { return bytes_of_rows(Exchange(call)); }

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
      SharedRows place{counts[t], 0};
      const size_t bytes = static_cast<size_t>(counts[t]) * exchange.row_bytes(t);
      if (bytes != 0 && !own.value()->contains(begins[t], bytes)) {
        return not_in_arena(t);
      }
      if (bytes != 0) place.begin = static_cast<uint64_t>(begins[t] - own.value()->base());
      std::memcpy(to + (index_of_rows(exchange, receiver) + t) * sizeof place, &place, sizeof place);
    }
  }
  return {};
}

/// Each rank begins with the sender after itself, so that not all read the same one first.
Status collect_rows(SharedBatch& batch) {
  Exchange exchange(batch.call());
  const int size = exchange.size();
  std::vector<std::vector<SharedRows>> rows(static_cast<size_t>(size));
  const auto from = [&](int i) { return (exchange.index() + 1 + i) % size; };
  for (int i = 0; i + 1 < size; ++i) {
    if (!exchange.sends(from(i)) || !exchange.receives(exchange.index())) continue;
    std::vector<SharedRows>& of_sender = rows[static_cast<size_t>(from(i))];
    of_sender = read_rows(batch.posted_by(from(i)), exchange);
    std::vector<int64_t> counts;
    for (const SharedRows& place : of_sender) counts.push_back(place.rows);
    RUEDA_RETURN_IF_ERROR(exchange.learn(from(i), counts));
  }
  exchange.place();
  const PhaseScope unpacking(batch.call().phases, WorkPhase::kUnpack);
  for (int i = 0; i + 1 < size; ++i) {
    const auto sender = static_cast<size_t>(from(i));
    const TensorArena& arena = *batch.arenas()[sender];
    const int rank = batch.view().rank_of(from(i));
    RUEDA_RETURN_IF_ERROR(copy_rows(exchange, from(i), rank, rows[sender], {arena.base(), arena.bytes()}));
  }
  return {};
}

constexpr SharedWork kSharedRows = {bytes_to_post, post_rows, collect_rows};

}  // namespace

/// The number of rows is only known to the ranks, so an exchange of any length takes this way.
bool shm_shared_rows_fits(const BatchShape& shape) {
  const bool same = shape.kind == OpKind::kAllgather || shape.kind == OpKind::kGather;
  const uint64_t lists = same ? 1 : static_cast<uint64_t>(shape.ranks);
  return shm_fits(shape) && shape.shared && lists * shape.tensors * sizeof(SharedRows) <= shape.slot_bytes;
}

AlgorithmChoice shm_shared_rows_plan(const BatchShape& shape) {
  return plan_chunks(0, static_cast<uint32_t>(shape.slot_bytes));
}

Status shm_shared_rows(const Call& call, Mesh& mesh, Deadline deadline) {
  return run_shared(kSharedRows, call, mesh, deadline);
}

}  // namespace rueda::core
