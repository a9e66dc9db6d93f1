#include "compression/codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace rueda::core;

namespace {

/// Small integers and quarters: every codec carries them exactly.
template <class Real>
std::vector<Real> exact_values(size_t count) {
  std::vector<Real> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<Real>(static_cast<int>(i % 101) - 50) / Real(4);
  return values;
}

template <class Real>
void check_round_trip(const Codec& codec, Dtype dtype) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, size_t{65537}}) {
    const std::vector<Real> values = exact_values<Real>(count);
    std::vector<std::byte> wire(count * size_of(codec.wire(dtype)));
    std::vector<Real> back(count);
    const auto n = static_cast<int64_t>(count);
    const auto hint = count % 2 == 0 ? StoreHint::kPlain : StoreHint::kNonTemporal;
    codec.encode(dtype, 2.0, reinterpret_cast<const std::byte*>(values.data()), wire.data(), n, hint);
    codec.decode(dtype, wire.data(), reinterpret_cast<std::byte*>(back.data()), n, hint);
    bool doubled = true;
    for (size_t i = 0; i < count; ++i) doubled = doubled && back[i] == values[i] * 2;
    INFO(codec.name << " " << name_of(dtype) << " x " << count);
    CHECK(doubled);
  }
}

}  // namespace

TEST_CASE("every codec carries fp32 and fp64 values that fit it there and back, scaled") {
  for (const Codec& codec : codecs()) {
    check_round_trip<float>(codec, Dtype::kF32);
    check_round_trip<double>(codec, Dtype::kF64);
  }
}

TEST_CASE("a codec is found by its id and has the name of its id") {
  for (const Codec& row : codecs()) {
    CHECK(&codec(row.id) == &row);
    CHECK(std::string(row.name) == name_of(row.id));
  }
  CHECK(codecs().size() == 3);
}

TEST_CASE("only fp32 and fp64 change their type on the wire") {
  for (const Codec& codec : codecs()) {
    for (int type = 0; type < kDtypeCount; ++type) {
      const auto dtype = static_cast<Dtype>(type);
      const bool wide = dtype == Dtype::kF32 || dtype == Dtype::kF64;
      if (!wide || codec.id == CodecId::kNone) CHECK(codec.wire(dtype) == dtype);
      if (wide && codec.id != CodecId::kNone) CHECK(size_of(codec.wire(dtype)) == 2);
    }
  }
  CHECK(codec(CodecId::kFp16).wire(Dtype::kF32) == Dtype::kF16);
  CHECK(codec(CodecId::kBf16).wire(Dtype::kF64) == Dtype::kBf16);
}

TEST_CASE("types that no codec changes travel with their bits, NaN included") {
  std::vector<std::byte> bits(1024);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::byte>(i * 89 + 7);
  for (const Codec& codec : codecs()) {
    for (int type = 0; type < kDtypeCount; ++type) {
      const auto dtype = static_cast<Dtype>(type);
      if (codec.wire(dtype) != dtype) continue;
      const auto count = static_cast<int64_t>(bits.size() / size_of(dtype));
      std::vector<std::byte> wire(bits.size());
      std::vector<std::byte> back(bits.size());
      codec.encode(dtype, 1.0, bits.data(), wire.data(), count, StoreHint::kPlain);
      codec.decode(dtype, wire.data(), back.data(), count, StoreHint::kPlain);
      INFO(codec.name << " " << name_of(dtype));
      CHECK(wire == bits);
      CHECK(back == bits);
    }
  }
}
