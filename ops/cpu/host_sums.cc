// The two folds of a hierarchical all-reduce, and what a host's sum looks like between them.
//
//   host's inputs ─▶ fold in the accumulator ─▶ host sum ─ network ─▶ fold over hosts, finish ─▶ result, wire type
//                                               exact:  fp32 for 16-bit types, else the wire type
//                                               narrow: the wire type; fp16 scaled by 2^-k
//
// With exact sums the two folds are the canonical bracket, a group for each host, and the result is rounded once. With
// narrow ones a host's sum is rounded to 16 bits on its way. fp16 ends at 65504: a sum of up to 2^k inputs could
// overflow although an average over all ranks would not. So it is multiplied by 2^-k on the host and by 2^k in the
// finish, both exact but for numbers that become subnormal. bf16 has the range of fp32 and needs no such step.
#include "ops/cpu/host_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compression/cast.h"

namespace rueda::core {

namespace {

/// Elements of a block: with the inputs of a full host it stays in the second-level cache.
constexpr int64_t kBlockElements = 1024;

void widen_or_narrow(Dtype from, Dtype to, const std::byte* in, std::byte* out, int64_t count) {
  cast(casts(best_isa()), CastTask{from, to, 1.0, StoreHint::kPlain}, in, out, count);
}

}  // namespace

HostSums::HostSums(const Call& call, const Packing& packing, Width width)
    : wire_(packing.task().dtype), dtype_(wire_), all_(packing.task()) {
  if (is_half(wire_) && width == Width::kExact) dtype_ = Dtype::kF32;
  // The average's divisor belongs to the second fold, which sees the inputs of all ranks.
  host_.dtype = dtype_;
  host_.op = call.op == ReduceOp::kAverage ? ReduceOp::kSum : call.op;
  all_.dtype = dtype_;
  all_.groups = {};
  // The largest host's shift on every host: the second fold adds sums of one scale.
  if (dtype_ == Dtype::kF16 && host_.op == ReduceOp::kSum) {
    const int largest = *std::max_element(call.team->hosts.begin(), call.team->hosts.end());
    const int shift = static_cast<int>(std::bit_width(static_cast<unsigned>(largest - 1)));
    host_.postscale = std::ldexp(1.0, -shift);
    all_.postscale *= std::ldexp(1.0, shift);
  }
}

/// Widens a block of all inputs, folds it, and goes on to the next: the wide copies never leave the cache.
void HostSums::of_host(std::span<const std::byte* const> inputs, std::byte* sum, int64_t count) {
  if (dtype_ == wire_) return reduce(host_, inputs, sum, StoreHint::kPlain, nullptr, count);
  block_.resize(inputs.size() * kBlockElements * element_bytes());
  at_.resize(inputs.size());
  for (int64_t done = 0; done < count; done += kBlockElements) {
    const int64_t length = std::min(kBlockElements, count - done);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::byte* const wide = block_.data() + i * kBlockElements * element_bytes();
      widen_or_narrow(wire_, dtype_, inputs[i] + static_cast<size_t>(done) * size_of(wire_), wide, length);
      at_[i] = wide;
    }
    reduce(host_, at_, sum + static_cast<size_t>(done) * element_bytes(), StoreHint::kPlain, nullptr, length);
  }
}

/// The same the other way round: folds a block of sums, then narrows the result.
void HostSums::of_all(std::span<const std::byte* const> sums, std::byte* out, int64_t count) {
  if (dtype_ == wire_) return reduce(all_, sums, out, StoreHint::kPlain, nullptr, count);
  block_.resize(std::max(block_.size(), kBlockElements * element_bytes()));
  at_.assign(sums.begin(), sums.end());
  for (int64_t done = 0; done < count; done += kBlockElements) {
    const int64_t length = std::min(kBlockElements, count - done);
    reduce(all_, at_, block_.data(), StoreHint::kPlain, nullptr, length);
    widen_or_narrow(dtype_, wire_, block_.data(), out + static_cast<size_t>(done) * size_of(wire_), length);
    for (const std::byte*& sum : at_) sum += static_cast<size_t>(length) * element_bytes();
  }
}

}  // namespace rueda::core
