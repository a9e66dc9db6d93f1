// The arithmetic of tensors that are reduced where they lie.
//
//   member 0   in ─┐            ┌─▶ out
//   member 1   in ─┼─▶ bracket ─┼─▶ out       a block at a time: what is read, added and written stays in the
//   member 2   in ─┘            └─▶ out       first-level cache between the steps
//
// The kernel writes two outputs itself: another member's with the given stores, the own with plain ones. Further ones
// are copied from the own block; without them, one call of the kernel does a stretch of any length.
// Bits are those of every other algorithm. With fp16 or bf16 the kernel rounds fp32 in its registers. Inputs that are
// scaled, or travel with fewer bits in any other way, are encoded block by block, as they would travel.
#include "ops/cpu/shared_fold.h"

#include <algorithm>

namespace rueda::core {
namespace {

/// Long enough for non-temporal stores, short enough for a few of them in the first-level cache.
constexpr int64_t kStretchBytes = 8192;

}  // namespace

SharedFold::SharedFold(const Call& call, size_t own, StoreHint hint)
    : packing_(call),
      task_(packing_.task()),
      in_registers_(packing_.as_is() || packing_.rounds()),
      own_(own),
      hint_(hint),
      element_bytes_(size_of(call.dtype)) {
  if (packing_.rounds()) task_.held_as_f32 = HeldAsF32::kAll;
  // A wire element is never longer than the tensor's own.
  if (!in_registers_) block_.resize((static_cast<size_t>(call.team->size()) + 1) * kStretchBytes);
}

void SharedFold::run(const MemberTensors& tensor, int64_t count) {
  in_ = tensor.in;
  out_ = tensor.out;
  const bool whole = in_registers_ && out_.size() <= 2;
  const int64_t block = whole ? count : kStretchBytes / static_cast<int64_t>(element_bytes_);
  while (count > 0) {
    const int64_t length = std::min(block, count);
    in_registers_ ? run_in_registers(length) : run_encoded(length);
    for (const std::byte*& in : in_) in += static_cast<size_t>(length) * element_bytes_;
    for (std::byte*& out : out_) out += static_cast<size_t>(length) * element_bytes_;
    count -= length;
  }
}

/// A line that was read a moment ago is in this core's cache, and a store past the cache would first push it out: three
/// times slower, measured. So only an output that is not also an input may be stored so.
StoreHint SharedFold::hint_of(int64_t count) const {
  const size_t other = (own_ + 1) % out_.size();
  if (other < in_.size() && out_[other] == in_[other]) return StoreHint::kPlain;
  return hint_for(static_cast<size_t>(count) * element_bytes_, hint_);
}

void SharedFold::run_in_registers(int64_t count) {
  const StoreHint hint = hint_of(count);
  if (out_.size() == 1) return reduce(task_, in_, out_[0], StoreHint::kPlain, nullptr, count);
  const size_t other = (own_ + 1) % out_.size();
  reduce(task_, in_, out_[other], hint, out_[own_], count);
  const int64_t bytes = count * static_cast<int64_t>(element_bytes_);
  for (size_t k = 0; k < out_.size(); ++k) {
    if (k != own_ && k != other) codec(CodecId::kNone).decode(Dtype::kU8, out_[own_], out_[k], bytes, hint);
  }
}

void SharedFold::run_encoded(int64_t count) {
  const StoreHint hint = hint_of(count);
  std::vector<const std::byte*> encoded(in_.size());
  for (size_t k = 0; k < in_.size(); ++k) {
    std::byte* const to = block_.data() + k * kStretchBytes;
    packing_.encode(in_[k], to, count);
    encoded[k] = to;
  }
  std::byte* const result = block_.data() + in_.size() * kStretchBytes;
  reduce(task_, encoded, result, StoreHint::kPlain, nullptr, count);
  for (size_t k = 0; k < out_.size(); ++k) {
    packing_.decode(result, out_[k], count, k == own_ ? StoreHint::kPlain : hint);
  }
}

}  // namespace rueda::core
