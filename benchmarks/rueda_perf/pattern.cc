// Inputs and results by a formula, so that a failure names the wrong element and its tensor without a second
// implementation of any algorithm.
//
//   tensor 0   | e0 e1 e2 ... e1020 | e0 e1 ... |      a period of 1021 elements, a prime: no chunk, slice or cache
//   line tensor 1   | e31 e32 ...        | e31 ...   |     is a multiple of it, so bytes in a wrong position show
//
// All values are small whole numbers: their sums and products are exact in every dtype and codec, up to many ranks.
#include "benchmarks/rueda_perf/pattern.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>

#include "runtime/base/half.h"

namespace rueda::perf {
namespace {

using core::Dtype;
using core::ReduceOp;

constexpr int kPeriod = 1021;
// Neighbouring tensors begin at different positions of the period.
constexpr size_t kShift = 31;

// The input of `rank` at position i of the period. Products are of ones and few twos, so that they stay small.
double element(Dtype dtype, ReduceOp op, int rank, int ranks, int i) {
  const int mixed = i * i * 5 + i * (rank + 3) + rank;
  if (dtype == Dtype::kBool) return (i + rank) % 5 == 0 ? 1 : 0;
  switch (op) {
    case ReduceOp::kProduct: return mixed % 17 == 0 ? 2 : 1;
    case ReduceOp::kMin:
    case ReduceOp::kMax:
    case ReduceOp::kBand:
    case ReduceOp::kBor:
    case ReduceOp::kBxor:
      return mixed % 61;  // so many values that the extreme of many ranks still differs from element to element
    case ReduceOp::kAverage: return ranks * (mixed % 3);
    default: return mixed % 3;
  }
}

double fold(ReduceOp op, double left, double right) {
  switch (op) {
    case ReduceOp::kMin: return std::min(left, right);
    case ReduceOp::kMax: return std::max(left, right);
    case ReduceOp::kProduct: return left * right;
    case ReduceOp::kBand: return static_cast<double>(static_cast<int64_t>(left) & static_cast<int64_t>(right));
    case ReduceOp::kBor: return static_cast<double>(static_cast<int64_t>(left) | static_cast<int64_t>(right));
    case ReduceOp::kBxor: return static_cast<double>(static_cast<int64_t>(left) ^ static_cast<int64_t>(right));
    default: return left + right;
  }
}

double expected(Dtype dtype, ReduceOp op, int ranks, int i) {
  double value = element(dtype, op, 0, ranks, i);
  for (int rank = 1; rank < ranks; ++rank) value = fold(op, value, element(dtype, op, rank, ranks, i));
  if (op == ReduceOp::kAverage) value /= ranks;
  return dtype == Dtype::kBool && value > 0 ? 1 : value;
}

template <typename T>
void store(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
}
template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Whole numbers below 2^63, so that narrowing an integer wraps as the library's sums do. Complex ones have no imaginary
// part, so that their products are those of the formula.
void encode(Dtype dtype, double value, std::byte* to) {
  const auto whole = static_cast<int64_t>(value);
  switch (dtype) {
    case Dtype::kF16: return store(core::f64_to_f16(value), to);
    case Dtype::kBf16: return store(core::f64_to_bf16(value), to);
    case Dtype::kF32: return store(static_cast<float>(value), to);
    case Dtype::kF64: return store(value, to);
    case Dtype::kC64: return store(std::complex<float>(static_cast<float>(value)), to);
    case Dtype::kC128: return store(std::complex<double>(value), to);
    default: std::memcpy(to, &whole, core::size_of(dtype));  // little-endian: the low bytes come first
  }
}

double decode_float(Dtype dtype, const std::byte* from) {
  if (dtype == Dtype::kF16) return core::f16_to_f32(load<core::F16>(from));
  if (dtype == Dtype::kBf16) return core::bf16_to_f32(load<core::Bf16>(from));
  return dtype == Dtype::kF32 ? load<float>(from) : load<double>(from);
}

template <typename Value>
std::vector<std::byte> period(Dtype dtype, Value value) {
  const size_t width = core::size_of(dtype);
  std::vector<std::byte> bytes(kPeriod * width);
  for (int i = 0; i < kPeriod; ++i) encode(dtype, value(i), bytes.data() + static_cast<size_t>(i) * width);
  return bytes;
}

// Calls visit(tensor offset, period offset, bytes) for each run of the tensor within one period.
template <typename Visit>
void for_each_run(size_t tensor_bytes, size_t width, size_t index, Visit visit) {
  const size_t period_bytes = kPeriod * width;
  size_t at = (index * kShift % kPeriod) * width;
  for (size_t done = 0; done < tensor_bytes;) {
    const size_t bytes = std::min(period_bytes - at, tensor_bytes - done);
    visit(done, at, bytes);
    done += bytes;
    at = 0;
  }
}

}  // namespace

Pattern::Pattern(Dtype dtype, std::vector<std::byte> input, std::vector<std::byte> result)
    : dtype_(dtype), input_(std::move(input)), result_(std::move(result)) {}

Pattern::Pattern(Dtype dtype, ReduceOp op, int rank, int ranks)
    : Pattern(dtype, period(dtype, [&](int i) { return element(dtype, op, rank, ranks, i); }),
              period(dtype, [&](int i) { return expected(dtype, op, ranks, i); })) {
  if (op == ReduceOp::kAverage && core::is_float(core::part_of(dtype))) {
    tolerance_ = core::size_of(dtype) == 2 ? 1e-2 : 1e-6;
  }
}

Pattern Pattern::of_broadcast(Dtype dtype, int rank, int root) {
  const auto of = [&](int who) {
    return period(dtype, [&](int i) { return element(dtype, ReduceOp::kSum, who, 1, i); });
  };
  return Pattern(dtype, of(rank), of(root));
}

void Pattern::fill(std::span<std::byte> tensor, size_t index) const {
  for_each_run(tensor.size(), core::size_of(dtype_), index, [&](size_t done, size_t at, size_t bytes) {
    std::memcpy(tensor.data() + done, input_.data() + at, bytes);
  });
}

bool Pattern::holds(std::span<const std::byte> tensor, size_t index) const {
  bool all = true;
  for_each_run(tensor.size(), core::size_of(dtype_), index, [&](size_t done, size_t at, size_t bytes) {
    all = all && equal(tensor.data() + done, result_.data() + at, bytes);
  });
  return all;
}

// Equal bytes first: a comparison of floats is needed for averages only.
bool Pattern::equal(const std::byte* found, const std::byte* expected_bytes, size_t bytes) const {
  if (std::memcmp(found, expected_bytes, bytes) == 0) return true;
  if (tolerance_ == 0) return false;
  const Dtype part = core::part_of(dtype_);
  for (size_t at = 0; at < bytes; at += core::size_of(part)) {
    const double want = decode_float(part, expected_bytes + at);
    const double difference = std::abs(decode_float(part, found + at) - want);
    if (!(difference <= tolerance_ * std::max(1.0, std::abs(want)))) return false;
  }
  return true;
}

}  // namespace rueda::perf
