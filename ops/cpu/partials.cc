// Partial sums on their way from rank to rank (ring, doubling, native):
//
//   tensors ─prescale, encode─▶ wire type ─▶ partial type ── + ── + ──▶ finish ─▶ wire type ─decode─▶ tensors
//                                            16-bit types as fp32       divides, scales, rounds once
//
// The codec is applied although nothing travels in its type in the first half, so that every algorithm gives the
// results of the same inputs: those that a codec has rounded.
#include "ops/cpu/partials.h"

#include "compression/cast.h"
#include "compression/codec.h"

namespace rueda::core {

/// Floats: rounding is part of the promise for partial sums. Bool and all but sums: nothing can be lost. Integer sums
/// wrap, which is right only if nothing divides or scales them afterwards.
bool partials_serve(const Call& call) {
  const bool sums = call.op == ReduceOp::kSum || call.op == ReduceOp::kAverage;
  return is_float(part_of(call.dtype)) || call.dtype == Dtype::kBool || !sums ||
         (call.op == ReduceOp::kSum && call.postscale == 1.0);
}

Partials::Partials(const Call& call, const Packing& packing)
    : packing_(packing),
      wire_(packing.task().dtype),
      dtype_(is_half(wire_) ? Dtype::kF32 : wire_),
      finish_(packing.task()) {
  // Sums on the way; the divisor and the scale come once, in `finish`, over one input and so without groups.
  combine_.dtype = dtype_;
  combine_.op = call.op == ReduceOp::kAverage ? ReduceOp::kSum : call.op;
  finish_.dtype = dtype_;
  finish_.groups = {};
}

void Partials::load(SliceCursor& cursor, int64_t count, std::byte* to) const {
  if (dtype_ == wire_) return packing_.pack(cursor, count, to, StoreHint::kPlain);
  // Encode a piece, widen it, go on: the encoded copy never leaves the first-level cache.
  constexpr int64_t kPiece = 2048;
  alignas(64) std::byte piece[kPiece * 2];
  while (count > 0) {
    const int64_t length = std::min(count, kPiece);
    packing_.pack(cursor, length, piece, StoreHint::kPlain);
    cast(casts(best_isa()), CastTask{wire_, dtype_, 1.0, StoreHint::kPlain}, piece, to, length);
    to += static_cast<size_t>(length) * element_bytes();
    count -= length;
  }
}

void Partials::combine(const std::byte* first, const std::byte* second, std::byte* out, int64_t count) const {
  const std::byte* const inputs[] = {first, second};
  reduce(combine_, inputs, out, StoreHint::kPlain, nullptr, count);
}

void Partials::finish(std::byte* partial, std::byte* wire, int64_t count) const {
  const std::byte* const inputs[] = {partial};
  if (dtype_ == wire_) return reduce(finish_, inputs, wire, StoreHint::kPlain, nullptr, count);
  reduce(finish_, inputs, partial, StoreHint::kPlain, nullptr, count);
  cast(casts(best_isa()), CastTask{dtype_, wire_, 1.0, StoreHint::kPlain}, partial, wire, count);
}

}  // namespace rueda::core
