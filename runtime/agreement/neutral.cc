// What a joined rank contributes: for each reduction and type the input that leaves the others' result as it is, bit by
// bit. Two steps: `neutral_of` names the value in the abstract, considering how the operation scales its inputs, and
// `fill_neutral` writes it in the tensor's type. Zeros for everything, the usual answer, are wrong for minimum, maximum
// and product, and turn a sum of -0 into +0. The reasons are in docs/decisions/0013-joining.md.
//
//   sum, average   -0             min   the largest value, +infinity for floats      band        all ones
//   product         1             max   the smallest value, -infinity for floats     bor, bxor   0
#include "runtime/agreement/neutral.h"

#include <cstring>
#include <limits>

namespace rueda::core {
namespace {

constexpr uint16_t kF16One = 0x3c00, kF16Infinity = 0x7c00;
constexpr uint16_t kBf16One = 0x3f80, kBf16Infinity = 0x7f80;
constexpr uint16_t kHalfSign = 0x8000;

enum class Neutral { kZero, kMinusZero, kOne, kLowest, kHighest, kAllOnes };

/// The neutral input of a minimum is the largest value. A negative scale turns the order round. With a scale of 0 every
/// scaled input is 0, and 0 times infinity would be a NaN.
Neutral extreme(const Metadata& metadata) {
  if (metadata.prescale == 0) return Neutral::kZero;
  const bool highest = (metadata.op == ReduceOp::kMin) == (metadata.prescale > 0);
  return highest ? Neutral::kHighest : Neutral::kLowest;
}

/// Names the neutral value of the reduction. Reductions without one were refused by `why_no_neutral`.
Neutral neutral_of(const Metadata& metadata) {
  switch (metadata.op) {
    case ReduceOp::kAverage:
    // -0 plus x is x for every x, -0 included. A negative scale makes it from +0.
    case ReduceOp::kSum: return metadata.prescale < 0 ? Neutral::kZero : Neutral::kMinusZero;
    case ReduceOp::kMin:
    case ReduceOp::kMax: return extreme(metadata);
    case ReduceOp::kProduct: return Neutral::kOne;
    case ReduceOp::kBand: return Neutral::kAllOnes;
    case ReduceOp::kAdasum:
    case ReduceOp::kBor:
    case ReduceOp::kBxor: break;
  }
  return Neutral::kZero;
}

template <typename T>
void repeat(T value, std::span<std::byte> elements) {
  for (size_t at = 0; at + sizeof(T) <= elements.size(); at += sizeof(T)) {
    std::memcpy(elements.data() + at, &value, sizeof(T));
  }
}

template <typename T>
void fill_float(Neutral value, std::span<std::byte> elements) {
  switch (value) {
    case Neutral::kMinusZero: return repeat(T(-0.0), elements);
    case Neutral::kOne: return repeat(T(1), elements);
    case Neutral::kLowest: return repeat(-std::numeric_limits<T>::infinity(), elements);
    case Neutral::kHighest: return repeat(std::numeric_limits<T>::infinity(), elements);
    default: return repeat(T(0), elements);
  }
}

/// Half types have no arithmetic in C++: their values are written as bits.
void fill_half(Neutral value, uint16_t one, uint16_t infinity, std::span<std::byte> elements) {
  switch (value) {
    case Neutral::kMinusZero: return repeat(kHalfSign, elements);
    case Neutral::kOne: return repeat(one, elements);
    case Neutral::kLowest: return repeat(static_cast<uint16_t>(infinity | kHalfSign), elements);
    case Neutral::kHighest: return repeat(infinity, elements);
    default: return repeat(uint16_t{0}, elements);
  }
}

template <typename T>
void fill_integer(Neutral value, std::span<std::byte> elements) {
  switch (value) {
    case Neutral::kOne: return repeat(T(1), elements);
    case Neutral::kLowest: return repeat(std::numeric_limits<T>::lowest(), elements);
    case Neutral::kHighest: return repeat(std::numeric_limits<T>::max(), elements);
    case Neutral::kAllOnes: return repeat(static_cast<T>(~T(0)), elements);
    default: return repeat(T(0), elements);
  }
}

/// Sums and products only; complex numbers have no order. A product's 1 has the imaginary part 0.
template <typename Part>
void fill_complex(Neutral value, std::span<std::byte> elements) {
  fill_float<Part>(value, elements);
  if (value != Neutral::kOne) return;
  for (size_t at = sizeof(Part); at + sizeof(Part) <= elements.size(); at += 2 * sizeof(Part)) {
    repeat(Part(0), elements.subspan(at, sizeof(Part)));
  }
}

/// Bools are bytes of 0 and 1, so "all ones" is 1 and the largest value is 1.
void fill_bool(Neutral value, std::span<std::byte> elements) {
  const bool set = value == Neutral::kOne || value == Neutral::kHighest || value == Neutral::kAllOnes;
  repeat(static_cast<uint8_t>(set ? 1 : 0), elements);
}

}  // namespace

std::string why_no_neutral(const Metadata& metadata) {
  if (metadata.kind == OpKind::kBarrier) return {};
  // A broadcast or an exchange moves each member's own data; nothing can stand for it.
  if (!reduces(metadata.kind)) return std::string(name_of(metadata.kind)) + " needs every member";
  if (metadata.op == ReduceOp::kAdasum) return "adasum needs the tensor of every member";
  // The scale multiplies each rank's input: no value times the scale is 1 in every type.
  if (metadata.op == ReduceOp::kProduct && metadata.prescale != 1.0) {
    return "a prescaled product has no neutral element";
  }
  if (metadata.op == ReduceOp::kBand && metadata.prescale != 1.0) {
    return "a prescaled band has no neutral element";
  }
  const bool extreme = metadata.op == ReduceOp::kMin || metadata.op == ReduceOp::kMax;
  if (extreme && metadata.dtype == Dtype::kBool && metadata.prescale <= 0) {
    return std::string("a ") + name_of(metadata.op) + " of bools that a scale <= 0 changes has no neutral element";
  }
  return {};
}

void fill_neutral(const Metadata& metadata, std::span<std::byte> elements) {
  const Neutral value = neutral_of(metadata);
  switch (metadata.dtype) {
    case Dtype::kU8: return fill_integer<uint8_t>(value, elements);
    case Dtype::kI8: return fill_integer<int8_t>(value, elements);
    case Dtype::kU16: return fill_integer<uint16_t>(value, elements);
    case Dtype::kI16: return fill_integer<int16_t>(value, elements);
    case Dtype::kU32: return fill_integer<uint32_t>(value, elements);
    case Dtype::kI32: return fill_integer<int32_t>(value, elements);
    case Dtype::kU64: return fill_integer<uint64_t>(value, elements);
    case Dtype::kI64: return fill_integer<int64_t>(value, elements);
    case Dtype::kF16: return fill_half(value, kF16One, kF16Infinity, elements);
    case Dtype::kBf16: return fill_half(value, kBf16One, kBf16Infinity, elements);
    case Dtype::kF32: return fill_float<float>(value, elements);
    case Dtype::kF64: return fill_float<double>(value, elements);
    case Dtype::kBool: return fill_bool(value, elements);
    case Dtype::kC64: return fill_complex<float>(value, elements);
    case Dtype::kC128: return fill_complex<double>(value, elements);
    case Dtype::kOpaque: break;  // no reduction takes it
  }
}

}  // namespace rueda::core
