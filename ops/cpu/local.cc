// A set of one rank: no data moves, but scales, codec and rounding leave the same bits as on a set of any size.
//
//   plain         input ─copy, unless it is the output─▶ output
//   scaled        input ─kernel of one input: scale, round─▶ output
//   else          input ─prescale, encode─▶ block in the cache ─fold, decode─▶ output     block after block of 8 KiB
//
// A plain sum of one number is that number. So a program that is written for many ranks costs one rank no pass over its
// gradients, as little as with an MPI library.
//
// With a codec the value goes through its wire type and back, since a rank among others gets back what travelled.
#include "ops/cpu/local.h"

#include <cstring>

#include "ops/chunks.h"
#include "ops/exchange.h"
#include "ops/packing.h"

namespace rueda::core {

namespace {

/// An encoded block between two passes over it: stays in the first-level cache.
constexpr size_t kLocalBlockBytes = 8192;
/// A turn runs batches up to this size itself. A longer one would hold the baton for too long, so a lane runs it.
constexpr uint32_t kInlineBytes = 256 * 1024;

Status copy_to_outputs(const Call& call) {
  for (const Slice& slice : call.slices) {
    if (slice.in != slice.out && slice.count > 0) {
      std::memcpy(slice.out, slice.in, static_cast<size_t>(slice.count) * size_of(call.dtype));
    }
  }
  return {};
}

}  // namespace

/// A set of one rank on this host; no other algorithm fits it.
bool local_fits(const BatchShape& shape) { return shape.ranks == 1 && shape.device < 0; }

AlgorithmChoice local_plan(const BatchShape& shape) { return plan_chunks(shape.bytes, kInlineBytes); }

Status local_allreduce(const Call& call, Mesh&, Deadline) {
  if (keeps_bits(call)) return copy_to_outputs(call);
  const Packing packing(call);
  if (packing.as_is()) {
    const PhaseScope reducing(call.phases, WorkPhase::kReduce);
    Reducer reducer(kernels(best_isa()), packing.task(), 1);
    packing.cursor().take(call.count, [&](const std::byte* in, std::byte* out, int64_t length) {
      reducer.run(&in, out, StoreHint::kPlain, nullptr, length);
    });
    return {};
  }
  SliceCursor from = packing.cursor();
  SliceCursor to = packing.cursor();
  alignas(64) std::byte block[kLocalBlockBytes];
  const std::byte* const inputs[] = {block};
  const auto capacity = static_cast<int64_t>(kLocalBlockBytes / packing.element_bytes());
  for (int64_t left = call.count; left > 0;) {
    const int64_t length = std::min(left, capacity);
    packing.pack(from, length, block, StoreHint::kPlain);
    packing.fold(to, length, inputs);
    left -= length;
  }
  return {};
}

Status local_broadcast(const Call& call, Mesh&, Deadline) { return copy_to_outputs(call); }

/// The exchange knows the own counts from the start, and copies the own rows when it places them.
Status local_exchange(const Call& call, Mesh&, Deadline) {
  Exchange(call).place();
  return {};
}

Status local_barrier(const Call&, Mesh&, Deadline) { return {}; }

}  // namespace rueda::core
