#include "tests/ops/kernels/reference.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/support/float_reference.h"

namespace rueda::test {
namespace {

using core::Dtype;
using core::ReduceOp;
using core::ReduceTask;

__extension__ typedef __int128 Wide;

template <class T>
T read(const std::byte* from, int64_t i) {
  T value;
  std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

/// The bracket: (x0 x1 ..)(..), a left fold in each pair of brackets, then over them.
template <class T, class Step>
T bracket(const std::vector<T>& x, std::span<const int> groups, Step step) {
  const int whole = static_cast<int>(x.size());
  if (groups.empty()) groups = {&whole, 1};
  std::vector<T> sums;
  size_t next = 0;
  for (const int size : groups) {
    T sum = x[next++];
    for (int k = 1; k < size; ++k) sum = step(sum, x[next++]);
    sums.push_back(sum);
  }
  T total = sums[0];
  for (size_t g = 1; g < sums.size(); ++g) total = step(total, sums[g]);
  return total;
}

template <class Real>
Real reduce_reals(const ReduceTask& task, const std::vector<Real>& x) {
  const auto step = [&](Real a, Real b) -> Real {
    if (task.op == ReduceOp::kProduct) return a * b;
    if (task.op == ReduceOp::kSum || task.op == ReduceOp::kAverage) return a + b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
    return (task.op == ReduceOp::kMin ? b < a : b > a) ? b : a;
  };
  Real value = bracket(x, task.groups, step);
  if (task.op == ReduceOp::kAverage) value = value / static_cast<Real>(task.divisor);
  value = value * static_cast<Real>(task.postscale);
  return std::isnan(value) ? std::numeric_limits<Real>::quiet_NaN() : value;
}

template <class Real>
std::complex<Real> reduce_complex(const ReduceTask& task, const std::vector<std::complex<Real>>& x) {
  using Number = std::complex<Real>;
  const auto step = [&](Number a, Number b) {
    if (task.op != ReduceOp::kProduct) return Number(a.real() + b.real(), a.imag() + b.imag());
    return Number(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  };
  const Number whole = bracket(x, task.groups, step);
  const auto finish = [&](Real part) {
    if (task.op == ReduceOp::kAverage) part = part / static_cast<Real>(task.divisor);
    part = part * static_cast<Real>(task.postscale);
    return std::isnan(part) ? std::numeric_limits<Real>::quiet_NaN() : part;
  };
  return {finish(whole.real()), finish(whole.imag())};
}

template <class T>
T held(double value) {
  if (std::isnan(value)) return 0;
  const long double cut = std::trunc(static_cast<long double>(value));
  if (cut < static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (cut > static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(cut);
}

template <class T>
T reduce_integers(const ReduceTask& task, const std::vector<T>& x) {
  Wide exact = x[0];
  for (size_t k = 1; k < x.size(); ++k) {
    switch (task.op) {
      case ReduceOp::kMin: exact = std::min<Wide>(exact, x[k]); break;
      case ReduceOp::kMax: exact = std::max<Wide>(exact, x[k]); break;
      case ReduceOp::kProduct:
        exact = static_cast<T>(static_cast<uint64_t>(exact) * static_cast<uint64_t>(x[k]));
        break;
      case ReduceOp::kBand: exact = static_cast<T>(static_cast<T>(exact) & x[k]); break;
      case ReduceOp::kBor: exact = static_cast<T>(static_cast<T>(exact) | x[k]); break;
      case ReduceOp::kBxor: exact = static_cast<T>(static_cast<T>(exact) ^ x[k]); break;
      default: exact += x[k];
    }
  }
  if (task.op == ReduceOp::kAverage) exact /= task.divisor;
  return task.postscale == 1.0 ? static_cast<T>(exact) : held<T>(static_cast<double>(exact) * task.postscale);
}

uint8_t reduce_truths(const ReduceTask& task, const std::vector<uint8_t>& x) {
  bool any = false;
  bool all = true;
  bool odd = false;
  for (const uint8_t byte : x) {
    any = any || byte != 0;
    all = all && byte != 0;
    odd = odd != (byte != 0);
  }
  switch (task.op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBor: return any;
    case ReduceOp::kBxor: return odd;
    default: return all;
  }
}

template <class T, class Reduce>
std::vector<std::byte> each(std::span<const std::byte* const> inputs, int64_t count, Reduce reduce) {
  std::vector<std::byte> out;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<T> x;
    for (const std::byte* input : inputs) x.push_back(read<T>(input, i));
    append(out, reduce(x));
  }
  return out;
}

template <class T>
std::vector<std::byte> each_integer(const ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count) {
  return each<T>(inputs, count, [&](const std::vector<T>& x) { return reduce_integers<T>(task, x); });
}

template <class T>
std::vector<std::byte> each_real(const ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count) {
  return each<T>(inputs, count, [&](const std::vector<T>& x) { return reduce_reals<T>(task, x); });
}

template <class Real>
std::vector<std::byte> each_complex(const ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count) {
  using Number = std::complex<Real>;
  return each<Number>(inputs, count, [&](const std::vector<Number>& x) { return reduce_complex<Real>(task, x); });
}

std::vector<std::byte> each_small(SmallFloat format, const ReduceTask& task, std::span<const std::byte* const> inputs,
                                  int64_t count) {
  return each<uint16_t>(inputs, count, [&](const std::vector<uint16_t>& x) {
    std::vector<float> wide;
    for (const uint16_t bits : x) wide.push_back(static_cast<float>(value_of(format, bits)));
    return nearest(format, static_cast<double>(reduce_reals(task, wide)));
  });
}

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::vector<std::byte> reduced(const ReduceTask& task, std::span<const std::byte* const> inputs, int64_t count) {
  switch (task.dtype) {
    case Dtype::kU8: return each_integer<uint8_t>(task, inputs, count);
    case Dtype::kI8: return each_integer<int8_t>(task, inputs, count);
    case Dtype::kU16: return each_integer<uint16_t>(task, inputs, count);
    case Dtype::kI16: return each_integer<int16_t>(task, inputs, count);
    case Dtype::kU32: return each_integer<uint32_t>(task, inputs, count);
    case Dtype::kI32: return each_integer<int32_t>(task, inputs, count);
    case Dtype::kU64: return each_integer<uint64_t>(task, inputs, count);
    case Dtype::kI64: return each_integer<int64_t>(task, inputs, count);
    case Dtype::kF16: return each_small(kBinary16, task, inputs, count);
    case Dtype::kBf16: return each_small(kBfloat16, task, inputs, count);
    case Dtype::kF32: return each_real<float>(task, inputs, count);
    case Dtype::kF64: return each_real<double>(task, inputs, count);
    case Dtype::kC64: return each_complex<float>(task, inputs, count);
    case Dtype::kC128: return each_complex<double>(task, inputs, count);
    case Dtype::kBool:
    case Dtype::kOpaque: break;
  }
  return each<uint8_t>(inputs, count, [&](const std::vector<uint8_t>& x) { return reduce_truths(task, x); });
}

std::vector<std::byte> elements(Dtype dtype, int64_t count, uint64_t seed) {
  if (core::is_complex(dtype)) return elements(core::part_of(dtype), 2 * count, seed);
  std::vector<std::byte> out;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t any = mix(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(i) + 1);
    const double calm = std::ldexp(static_cast<double>(static_cast<int64_t>(any) >> 40), -16);
    const bool wild = any % 3 == 0;
    switch (dtype) {
      case Dtype::kF16: append(out, wild ? static_cast<uint16_t>(any >> 8) : nearest(kBinary16, calm)); break;
      case Dtype::kBf16: append(out, wild ? static_cast<uint16_t>(any >> 8) : nearest(kBfloat16, calm)); break;
      case Dtype::kF32:
        append(out, wild ? std::bit_cast<float>(static_cast<uint32_t>(any >> 8)) : static_cast<float>(calm));
        break;
      case Dtype::kF64: append(out, wild ? std::bit_cast<double>(any) : calm); break;
      case Dtype::kBool: append(out, static_cast<uint8_t>(wild ? any >> 8 : any & 1)); break;
      default: {
        const auto* bytes = reinterpret_cast<const std::byte*>(&any);
        out.insert(out.end(), bytes, bytes + core::size_of(dtype));
      }
    }
  }
  return out;
}

}  // namespace rueda::test
