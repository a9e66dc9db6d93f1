#include "compression/cast.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/float_reference.h"

using namespace rueda::core;
using rueda::test::kBfloat16;
using rueda::test::kBinary16;
using rueda::test::nearest;
using rueda::test::value_of;

namespace {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Runs `task` by every set, at every small size and an odd address, with both kinds of store; "" or what differed.
std::string difference(CastTask task, const Bytes& in, const Bytes& expected) {
  const size_t from = size_of(task.from);
  const size_t to = size_of(task.to);
  const size_t whole = in.size() / from;
  for (const Isa isa : available_isas()) {
    for (size_t count = 0; count <= whole; count = count < 33 || count == whole ? count + 1 : whole) {
      task.hint = count % 2 == 0 ? StoreHint::kNonTemporal : StoreHint::kPlain;
      const size_t shift = count % 3 == 0 ? 1 : count % 3 * to;
      Bytes out(shift + count * to + 8, std::byte{0x5a});
      Bytes source(1 + count * from);
      std::copy_n(in.begin(), count * from, source.begin() + 1);
      cast(casts(isa), task, source.data() + 1, out.data() + shift, static_cast<int64_t>(count));
      for (size_t i = 0; i < count * to + 8; ++i) {
        const std::byte want = i < count * to ? expected[i] : std::byte{0x5a};
        if (out[shift + i] == want) continue;
        return std::string(name_of(isa)) + " " + name_of(task.from) + " to " + name_of(task.to) + ", count " +
               std::to_string(count) + ": byte " + std::to_string(i);
      }
    }
  }
  return "";
}

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> all;
  for (int bits = 0; bits < 0x10000; ++bits) all.push_back(static_cast<uint16_t>(bits));
  return all;
}

/// Values of many sizes around the ties of `format`, with their signs, the ends of the range and the special ones.
template <class Real>
std::vector<Real> hard_values(rueda::test::SmallFloat format) {
  std::vector<Real> values{Real(0),
                           Real(-0.0),
                           std::numeric_limits<Real>::infinity(),
                           -std::numeric_limits<Real>::infinity(),
                           std::numeric_limits<Real>::denorm_min(),
                           std::numeric_limits<Real>::max()};
  const int infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
  for (int bits = 0; bits < infinity; ++bits) {
    const double low = value_of(format, static_cast<uint16_t>(bits));
    const double middle = low / 2 + value_of(format, static_cast<uint16_t>(bits + 1)) / 2;
    const auto tie = static_cast<Real>(bits + 1 < infinity ? middle : 1.001 * low);
    const Real sign = bits % 2 == 0 ? Real(1) : Real(-1);
    values.insert(values.end(),
                  {sign * tie, sign * std::nextafter(tie, Real(0)), sign * std::nextafter(tie, Real(HUGE_VAL))});
  }
  return values;
}

template <class Real>
void check_narrowing(Dtype from, Dtype to, rueda::test::SmallFloat format, double factor) {
  const std::vector<Real> values = hard_values<Real>(format);
  std::vector<uint16_t> expected;
  for (const Real value : values) {
    const Real scaled = value * static_cast<Real>(factor);
    expected.push_back(nearest(format, static_cast<double>(scaled)));
  }
  CHECK(difference({from, to, factor}, bytes_of(values), bytes_of(expected)) == "");
}

template <class T>
void check_scaled(Dtype dtype, double factor, const std::vector<T>& values, const std::vector<T>& expected) {
  std::vector<T> many;
  std::vector<T> results;
  for (int turn = 0; turn < 200; ++turn) {
    many.insert(many.end(), values.begin(), values.end());
    results.insert(results.end(), expected.begin(), expected.end());
  }
  CHECK(difference({dtype, dtype, factor}, bytes_of(many), bytes_of(results)) == "");
}

}  // namespace

TEST_CASE("fp32 and fp64 narrow to the nearest 16-bit value, scaled on the way, rounded once") {
  for (const double factor : {1.0, 0.25, 0.3}) {
    check_narrowing<float>(Dtype::kF32, Dtype::kF16, kBinary16, factor);
    check_narrowing<float>(Dtype::kF32, Dtype::kBf16, kBfloat16, factor);
    check_narrowing<double>(Dtype::kF64, Dtype::kF16, kBinary16, factor);
    check_narrowing<double>(Dtype::kF64, Dtype::kBf16, kBfloat16, factor);
  }
}

TEST_CASE("every 16-bit value widens to fp32 and fp64 as it is") {
  for (const Dtype from : {Dtype::kF16, Dtype::kBf16}) {
    const auto format = from == Dtype::kF16 ? kBinary16 : kBfloat16;
    std::vector<uint16_t> numbers;
    std::vector<float> singles;
    std::vector<double> doubles;
    for (const uint16_t bits : all_halves()) {
      const double value = value_of(format, bits);
      if (std::isnan(value)) continue;
      numbers.push_back(bits);
      singles.push_back(static_cast<float>(value));
      doubles.push_back(value);
    }
    CHECK(difference({from, Dtype::kF32}, bytes_of(numbers), bytes_of(singles)) == "");
    CHECK(difference({from, Dtype::kF64}, bytes_of(numbers), bytes_of(doubles)) == "");
  }
}

TEST_CASE("16-bit values are scaled in fp32 and rounded once") {
  for (const Dtype dtype : {Dtype::kF16, Dtype::kBf16}) {
    const auto format = dtype == Dtype::kF16 ? kBinary16 : kBfloat16;
    std::vector<uint16_t> numbers;
    std::vector<uint16_t> scaled;
    for (const uint16_t bits : all_halves()) {
      const auto value = static_cast<float>(value_of(format, bits));
      if (std::isnan(value)) continue;
      numbers.push_back(bits);
      scaled.push_back(nearest(format, static_cast<double>(value * 0.3f)));
    }
    CHECK(difference({dtype, dtype, 0.3}, bytes_of(numbers), bytes_of(scaled)) == "");
  }
}

TEST_CASE("every set turns a NaN into the same NaN") {
  std::vector<float> singles;
  std::vector<double> doubles;
  for (uint32_t k = 0; k < 64; ++k) {
    const uint32_t sign = k % 2 == 0 ? 0 : 0x80000000u;
    singles.push_back(std::bit_cast<float>(sign | 0x7f800001u | (k * 0x1f123u & 0x7fffffu)));
    doubles.push_back(std::bit_cast<double>((uint64_t{sign} << 32) | 0x7ff0000000000001u | (uint64_t{k} << 46)));
  }
  const auto count = static_cast<int64_t>(singles.size());
  for (const Dtype to : {Dtype::kF16, Dtype::kBf16}) {
    std::vector<uint16_t> narrow(singles.size());
    auto* out = reinterpret_cast<std::byte*>(narrow.data());
    for (const double factor : {1.0, 3.0}) {
      cast(casts(Isa::kGeneric), {Dtype::kF32, to, factor}, bytes_of(singles).data(), out, count);
      for (const uint16_t bits : narrow) CHECK(std::isnan(value_of(to == Dtype::kF16 ? kBinary16 : kBfloat16, bits)));
      CHECK(difference({Dtype::kF32, to, factor}, bytes_of(singles), bytes_of(narrow)) == "");
      cast(casts(Isa::kGeneric), {Dtype::kF64, to, factor}, bytes_of(doubles).data(), out, count);
      for (const uint16_t bits : narrow) CHECK(std::isnan(value_of(to == Dtype::kF16 ? kBinary16 : kBfloat16, bits)));
      CHECK(difference({Dtype::kF64, to, factor}, bytes_of(doubles), bytes_of(narrow)) == "");
    }
  }
}

TEST_CASE("scaled integers are cut off toward zero and held at the ends of their range") {
  constexpr auto kMax64 = std::numeric_limits<int64_t>::max();
  constexpr auto kMin64 = std::numeric_limits<int64_t>::min();
  constexpr auto kMaxU64 = std::numeric_limits<uint64_t>::max();
  check_scaled<int8_t>(Dtype::kI8, 0.5, {-3, 3, 127, -128}, {-1, 1, 63, -64});
  check_scaled<uint8_t>(Dtype::kU8, 2.0, {0, 100, 127, 128, 255}, {0, 200, 254, 255, 255});
  check_scaled<int16_t>(Dtype::kI16, -1.0, {-32768, 5}, {32767, -5});
  check_scaled<uint16_t>(Dtype::kU16, -0.9, {1, 2}, {0, 0});
  check_scaled<int32_t>(Dtype::kI32, 1e9, {-3, 2, 0}, {std::numeric_limits<int32_t>::min(), 2000000000, 0});
  check_scaled<uint32_t>(Dtype::kU32, 0.1, {10, 19}, {1, 1});
  check_scaled<int64_t>(Dtype::kI64, 2.0, {kMax64, kMin64, 7}, {kMax64, kMin64, 14});
  check_scaled<uint64_t>(Dtype::kU64, 1.5, {kMaxU64, 3}, {kMaxU64, 4});
  check_scaled<int32_t>(Dtype::kI32, std::numeric_limits<double>::quiet_NaN(), {5, -5}, {0, 0});
}

TEST_CASE("a factor goes to both parts of a complex number") {
  std::vector<float> single;
  std::vector<double> twice;
  for (int i = 0; i < 2 * 77; ++i) single.push_back(static_cast<float>(i) * 0.7F - 20);
  for (const float value : single) twice.push_back(static_cast<double>(value));
  std::vector<float> single_scaled;
  std::vector<double> twice_scaled;
  for (const float value : single) single_scaled.push_back(value * 1.1F);
  for (const double value : twice) twice_scaled.push_back(value * 1.1);
  CHECK(difference({Dtype::kC64, Dtype::kC64, static_cast<double>(1.1F)}, bytes_of(single), bytes_of(single_scaled)) ==
        "");
  CHECK(difference({Dtype::kC128, Dtype::kC128, 1.1}, bytes_of(twice), bytes_of(twice_scaled)) == "");
}

TEST_CASE("a cast of a type to itself copies its bits, and bool whatever the factor") {
  std::vector<uint8_t> bytes(4099 * 8);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 167 + 13);
  for (int type = 0; type < kDtypeCount; ++type) {
    const auto dtype = static_cast<Dtype>(type);
    CHECK(difference({dtype, dtype}, bytes_of(bytes), bytes_of(bytes)) == "");
  }
  CHECK(difference({Dtype::kBool, Dtype::kBool, 3.0}, bytes_of(bytes), bytes_of(bytes)) == "");
}
