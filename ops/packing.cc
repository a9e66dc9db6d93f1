// Every pass between a caller's tensors and what travels: encode with prescale, decode, and the reductions that write
// straight into tensors. Algorithms see only wire elements and a cursor.
//
//   tensors  | t0 | t1 |   t2   |        a chunk may begin and end anywhere in any of them
//   wire     |      chunk k      |       one stretch of wire elements
//
// Results that are decoded on their way go through a block in the first-level cache: reduce a block, decode it, next
// block. One pass over memory, where reducing first and decoding then would be two.
#include "ops/packing.h"

#include <algorithm>
#include <vector>

namespace rueda::core {

namespace {

/// A block of results on its way through the wire type: stays in the first-level cache.
constexpr size_t kBlockBytes = 4096;

/// The codec that applies: only reductions change bits, other operations move them as they are.
CodecId codec_of(OpKind kind, CodecId codec) { return reduces(kind) ? codec : CodecId::kNone; }

/// A call may bring a divisor of its own; 0 means the team's size.
ReduceTask task_of(const Call& call, Dtype wire) {
  ReduceTask task;
  task.dtype = wire;
  task.op = call.op;
  task.postscale = call.postscale;
  task.divisor = call.divisor != 0 ? call.divisor : call.team->size();
  task.groups = call.team->groups;
  task.phases = call.phases;
  return task;
}

void advance_all(std::span<const std::byte*> inputs, size_t bytes) {
  for (const std::byte*& input : inputs) input += bytes;
}

}  // namespace

Packing::Packing(const Call& call)
    : call_(call),
      codec_(codec(codec_of(call.kind, call.codec))),
      wire_(codec_.wire(call.dtype)),
      prescale_(reduces(call.kind) ? call.prescale : 1.0),
      task_(task_of(call, wire_)) {}

void Packing::pack(SliceCursor& cursor, int64_t count, std::byte* to, StoreHint hint) const {
  if (count == 0) return;
  const PhaseScope packing(call_.phases, WorkPhase::kPack);
  cursor.take(count, [&](const std::byte* in, std::byte*, int64_t length) {
    const size_t bytes = static_cast<size_t>(length) * element_bytes();
    codec_.encode(call_.dtype, prescale_, in, to, length, hint_for(bytes, hint));
    to += bytes;
  });
}

void Packing::unpack(SliceCursor& cursor, int64_t count, const std::byte* from) const {
  if (count == 0) return;
  const PhaseScope unpacking(call_.phases, WorkPhase::kUnpack);
  cursor.take(count, [&](const std::byte*, std::byte* out, int64_t length) {
    codec_.decode(call_.dtype, from, out, length, StoreHint::kPlain);
    from += static_cast<size_t>(length) * element_bytes();
  });
}

void Packing::fold(SliceCursor& cursor, int64_t count, std::span<const std::byte* const> inputs) const {
  // Inputs advance together, stretch by stretch, as the cursor does.
  std::vector<const std::byte*> at(inputs.begin(), inputs.end());
  if (decodes()) return fold_decoding(cursor, count, at);
  const PhaseScope reducing(call_.phases, WorkPhase::kReduce);  // of all pieces together
  Reducer reducer(kernels(best_isa()), task_, at.size());
  cursor.take(count, [&](const std::byte*, std::byte* out, int64_t length) {
    reducer.run(at.data(), out, StoreHint::kPlain, nullptr, length);
    advance_all(at, static_cast<size_t>(length) * element_bytes());
  });
}

void Packing::fold_with_own(SliceCursor& cursor, int64_t count, std::span<const std::byte* const> inputs,
                            size_t self) const {
  std::vector<const std::byte*> at(inputs.begin(), inputs.end());
  const PhaseScope reducing(call_.phases, WorkPhase::kReduce);
  Reducer reducer(kernels(best_isa()), task_, at.size());
  cursor.take(count, [&](const std::byte* in, std::byte* out, int64_t length) {
    at[self] = in;  // at its position in the bracket: the order of the sum does not change
    reducer.run(at.data(), out, StoreHint::kPlain, nullptr, length);
    advance_all(at, static_cast<size_t>(length) * element_bytes());
  });
}

void Packing::fold_decoding(SliceCursor& cursor, int64_t count, std::span<const std::byte*> inputs) const {
  alignas(64) std::byte block[kBlockBytes];
  const auto capacity = static_cast<int64_t>(kBlockBytes / element_bytes());
  while (count > 0) {
    const int64_t length = std::min(count, capacity);
    reduce(task_, inputs, block, StoreHint::kPlain, nullptr, length);
    unpack(cursor, length, block);
    advance_all(inputs, static_cast<size_t>(length) * element_bytes());
    count -= length;
  }
}

size_t wire_element_bytes(const BatchShape& shape) {
  return size_of(codec(codec_of(shape.kind, shape.codec)).wire(shape.dtype));
}

uint64_t wire_bytes(const BatchShape& shape) { return shape.bytes / size_of(shape.dtype) * wire_element_bytes(shape); }

}  // namespace rueda::core
