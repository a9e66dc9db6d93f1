#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cfenv>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "ops/kernels/reduce.h"

using namespace rueda::core;

namespace {

/// The reduction of single numbers, spread over enough elements for whole registers and a tail; all must agree.
template <class T>
T of(Isa isa, Dtype dtype, ReduceOp op, const std::vector<T>& numbers, double postscale = 1.0,
     std::vector<int> groups = {}) {
  constexpr int64_t kCount = 131;
  std::vector<std::vector<T>> held;
  std::vector<const std::byte*> inputs;
  for (const T number : numbers) held.emplace_back(kCount, number);
  for (const auto& input : held) inputs.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<T> out(kCount);
  const ReduceTask task{dtype, op, postscale, static_cast<int64_t>(numbers.size()), groups};
  reduce(kernels(isa), task, inputs, reinterpret_cast<std::byte*>(out.data()), StoreHint::kPlain, nullptr, kCount);
  // The same bits are meant. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
  const auto same = [&](const T& value) { return std::memcmp(&value, &out[0], sizeof value) == 0; };
  CHECK(std::all_of(out.begin(), out.end(), same));
  return out[0];
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("an integer average divides the exact sum and truncates toward zero") {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  constexpr auto kMin = std::numeric_limits<int64_t>::min();
  constexpr auto kMaxU = std::numeric_limits<uint64_t>::max();
  for (const Isa isa : available_isas()) {
    const auto average = ReduceOp::kAverage;
    CHECK(of<int32_t>(isa, Dtype::kI32, average, {-1, -2}) == -1);
    CHECK(of<int32_t>(isa, Dtype::kI32, average, {-7, 0, 0}) == -2);
    CHECK(of<int32_t>(isa, Dtype::kI32, average, {7, 0, 1}) == 2);
    CHECK(of<int8_t>(isa, Dtype::kI8, average, {-128, -128, -127}) == -127);
    CHECK(of<uint8_t>(isa, Dtype::kU8, average, {255, 255, 254}) == 254);
    CHECK(of<int64_t>(isa, Dtype::kI64, average, {kMax, kMax, kMax - 1}) == kMax - 1);
    CHECK(of<int64_t>(isa, Dtype::kI64, average, {kMin, kMin, kMin + 1}) == kMin + 1);
    CHECK(of<uint64_t>(isa, Dtype::kU64, average, {kMaxU, kMaxU, 2}) == kMaxU / 3 * 2);
  }
}

TEST_CASE("integer sums and products wrap, scaled ones are held at the ends of the range") {
  for (const Isa isa : available_isas()) {
    CHECK(of<int8_t>(isa, Dtype::kI8, ReduceOp::kSum, {127, 1}) == -128);
    CHECK(of<int32_t>(isa, Dtype::kI32, ReduceOp::kProduct, {1 << 20, 1 << 11}) == std::numeric_limits<int32_t>::min());
    CHECK(of<int8_t>(isa, Dtype::kI8, ReduceOp::kSum, {127, 1}, 0.5) == 64);
    CHECK(of<int8_t>(isa, Dtype::kI8, ReduceOp::kSum, {127, 1}, -2.0) == -128);
    CHECK(of<uint16_t>(isa, Dtype::kU16, ReduceOp::kMax, {3, 7}, 1e9) == 65535);
    CHECK(of<uint16_t>(isa, Dtype::kU16, ReduceOp::kMin, {3, 7}, -1.0) == 0);
    CHECK(of<int32_t>(isa, Dtype::kI32, ReduceOp::kSum, {-3, 0}, 0.5) == -1);
    CHECK(of<int32_t>(isa, Dtype::kI32, ReduceOp::kSum, {0, 0}, HUGE_VAL) == 0);
  }
}

TEST_CASE("a NaN in any input is in the minimum, the maximum and the sum") {
  for (const Isa isa : available_isas()) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kAverage}) {
      CHECK(std::isnan(of<float>(isa, Dtype::kF32, op, {kNan, 1.0f, 2.0f})));
      CHECK(std::isnan(of<float>(isa, Dtype::kF32, op, {1.0f, kNan, 2.0f})));
      CHECK(std::isnan(of<float>(isa, Dtype::kF32, op, {1.0f, 2.0f, kNan})));
      CHECK(std::isnan(of<double>(isa, Dtype::kF64, op, {1.0, std::nan("7"), 2.0})));
      CHECK(of<uint16_t>(isa, Dtype::kF16, op, {0x3c00, 0xfc01}) == 0x7e00);
      CHECK(of<uint16_t>(isa, Dtype::kBf16, op, {0xff81, 0x3f80}) == 0x7fc0);
    }
    CHECK(std::isnan(of<float>(isa, Dtype::kF32, ReduceOp::kSum, {kInf, -kInf})));
    CHECK(of<float>(isa, Dtype::kF32, ReduceOp::kMin, {1.0f, -kInf}) == -kInf);
  }
}

TEST_CASE("every NaN of a result has the same bits, whatever the payloads that went in") {
  const auto first = std::bit_cast<float>(0xffc12345u);
  const auto second = std::bit_cast<float>(0x7f812345u);
  for (const Isa isa : available_isas()) {
    for (const auto& pair : {std::vector{first, second}, std::vector{second, first}, std::vector{kInf, -kInf}}) {
      CHECK(std::bit_cast<uint32_t>(of<float>(isa, Dtype::kF32, ReduceOp::kSum, pair)) == 0x7fc00000u);
    }
  }
}

TEST_CASE("of two zeros the minimum and the maximum are the first") {
  for (const Isa isa : available_isas()) {
    for (const ReduceOp op : {ReduceOp::kMin, ReduceOp::kMax}) {
      CHECK(std::signbit(of<float>(isa, Dtype::kF32, op, {-0.0f, 0.0f})));
      CHECK_FALSE(std::signbit(of<float>(isa, Dtype::kF32, op, {0.0f, -0.0f})));
    }
    CHECK(std::signbit(of<float>(isa, Dtype::kF32, ReduceOp::kSum, {-0.0f, -0.0f})));
  }
}

TEST_CASE("16-bit sums are added in fp32 and rounded once") {
  for (const Isa isa : available_isas()) {
    // 2048 + 1 is a tie that f16 loses each time; the exact sum of four ones is not.
    CHECK(of<uint16_t>(isa, Dtype::kF16, ReduceOp::kSum, {0x6800, 0x3c00, 0x3c00, 0x3c00, 0x3c00}) == 0x6802);
    // 60000 + 60000 overflows f16, their average does not.
    CHECK(of<uint16_t>(isa, Dtype::kF16, ReduceOp::kAverage, {0x7b53, 0x7b53}) == 0x7b53);
    CHECK(of<uint16_t>(isa, Dtype::kF16, ReduceOp::kSum, {0x7b53, 0x7b53}) == 0x7c00);
    // The least denormals: three halves of one rounds to the even two.
    CHECK(of<uint16_t>(isa, Dtype::kF16, ReduceOp::kAverage, {0x0001, 0x0002}) == 0x0002);
  }
}

TEST_CASE("the rounding mode of the calling thread does not show, and is its own again afterwards") {
  for (const Isa isa : available_isas()) {
    for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TONEAREST}) {
      std::fesetround(rounding);
      const float sum = of<float>(isa, Dtype::kF32, ReduceOp::kSum, {1.0f, 0x1p-30f});
      const uint16_t half = of<uint16_t>(isa, Dtype::kF16, ReduceOp::kSum, {0x6800, 0x3c00});
      const int after = std::fegetround();
      std::fesetround(FE_TONEAREST);
      CHECK(sum == 1.0f);
      CHECK(half == 0x6800);
      CHECK(after == rounding);
    }
  }
}

TEST_CASE("the bracket decides the order of a sum") {
  // Powers that vanish next to 2^24 one by one, and count together.
  for (const Isa isa : available_isas()) {
    const std::vector<float> numbers{0x1p24f, 1.0f, 1.0f, 1.0f};
    CHECK(of<float>(isa, Dtype::kF32, ReduceOp::kSum, numbers) == 0x1p24f);
    CHECK(of<float>(isa, Dtype::kF32, ReduceOp::kSum, numbers, 1.0, {2, 2}) == 0x1p24f + 2);
    CHECK(of<float>(isa, Dtype::kF32, ReduceOp::kSum, numbers, 1.0, {1, 3}) == 0x1p24f + 4);
  }
}

TEST_CASE("bitwise ops see the bits of integers, negative ones too, and truth values as 0 and 1") {
  for (const Isa isa : available_isas()) {
    CHECK(of<uint8_t>(isa, Dtype::kU8, ReduceOp::kBand, {0xf6, 0x3f, 0x77}) == 0x36);
    CHECK(of<int32_t>(isa, Dtype::kI32, ReduceOp::kBor, {-0x10000, 0x1234, 1}) == -0x10000 + 0x1235);
    CHECK(of<int64_t>(isa, Dtype::kI64, ReduceOp::kBxor, {-1, int64_t{1} << 62, 5}) == (~(int64_t{1} << 62) ^ 5));
    CHECK(of<uint16_t>(isa, Dtype::kU16, ReduceOp::kBor, {1, 2}, 10.0) == 30);
    CHECK(of<uint8_t>(isa, Dtype::kBool, ReduceOp::kBand, {2, 4}) == 1);
    CHECK(of<uint8_t>(isa, Dtype::kBool, ReduceOp::kBxor, {2, 4}) == 0);
    CHECK(of<uint8_t>(isa, Dtype::kBool, ReduceOp::kBxor, {2, 4, 8}) == 1);
  }
}

TEST_CASE("complex sums, averages and products are those of the textbook, and their parts never mix") {
  using Single = std::complex<float>;
  using Double = std::complex<double>;
  for (const Isa isa : available_isas()) {
    CHECK(of<Single>(isa, Dtype::kC64, ReduceOp::kSum, {{1, 2}, {3, -5}}) == Single(4, -3));
    CHECK(of<Single>(isa, Dtype::kC64, ReduceOp::kAverage, {{1, 2}, {3, -5}}, 4.0) == Single(8, -6));
    CHECK(of<Single>(isa, Dtype::kC64, ReduceOp::kProduct, {{1, 2}, {3, -5}, {0, 1}}) == Single(-1, 13));
    CHECK(of<Double>(isa, Dtype::kC128, ReduceOp::kProduct, {{1, 2}, {3, -5}, {2, 1}, {0, -1}}, 0.5) ==
          Double(7.5, -12.5));
    const Single half_nan = of<Single>(isa, Dtype::kC64, ReduceOp::kSum, {{kNan, 1}, {2, 3}});
    CHECK(std::isnan(half_nan.real()));
    CHECK(half_nan.imag() == 4);
  }
}

TEST_CASE("an average by a number that is no power of two is a true division") {
  for (const Isa isa : available_isas()) {
    for (int n = 1; n <= 11; ++n) {
      std::vector<float> numbers(static_cast<size_t>(n), 0.0f);
      for (int k = 1; k < 200; ++k) {
        numbers[0] = static_cast<float>(k) * 1.1f;
        const float expected = numbers[0] / static_cast<float>(n);
        if (of<float>(isa, Dtype::kF32, ReduceOp::kAverage, numbers) != expected) FAIL(n << " " << k);
      }
    }
  }
}
