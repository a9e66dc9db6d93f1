#include "runtime/base/wire.h"

#include <catch2/catch.hpp>
#include <limits>

namespace rueda::core {
namespace {

TEST_CASE("what a writer wrote a reader reads") {
  WireWriter writer;
  writer.u8(0xab);
  writer.u16(0xabcd);
  writer.u32(0xdeadbeef);
  writer.u64(0x0123456789abcdefu);
  writer.i32(-5);
  writer.i64(std::numeric_limits<int64_t>::min());
  writer.f64(-0.1);
  writer.text("name");
  writer.bytes({});
  const auto bytes = writer.take();
  CHECK(writer.empty());
  WireReader reader(bytes);
  CHECK(reader.u8() == 0xab);
  CHECK(reader.u16() == 0xabcd);
  CHECK(reader.u32() == 0xdeadbeef);
  CHECK(reader.u64() == 0x0123456789abcdefu);
  CHECK(reader.i32() == -5);
  CHECK(reader.i64() == std::numeric_limits<int64_t>::min());
  CHECK(reader.f64() == -0.1);
  CHECK(reader.text(4) == "name");
  CHECK(reader.bytes(0).empty());
  CHECK(reader.finished());
}

TEST_CASE("fixed values lie little-endian") {
  WireWriter writer;
  writer.u32(0x04030201);
  CHECK(writer.take_text() == std::string("\x01\x02\x03\x04"));
}

TEST_CASE("varints of every length come back") {
  for (int bit = 0; bit < 64; ++bit) {
    for (const uint64_t value : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1}) {
      WireWriter writer;
      writer.varint(value);
      CHECK(writer.size() <= 10);
      WireReader reader(writer.view());
      CHECK(reader.varint() == value);
      CHECK(reader.finished());
    }
  }
  WireWriter writer;
  writer.varint(UINT64_MAX);
  WireReader reader(writer.view());
  CHECK(reader.varint() == UINT64_MAX);
}

TEST_CASE("a varint over 64 bits, over its limit, or cut off fails") {
  const std::string eleven(11, '\x80');
  const std::string beyond = std::string(9, '\xff') + "\x02";
  for (const std::string& bytes : {eleven, beyond, std::string("\x80"), std::string()}) {
    WireReader reader(bytes);
    CHECK(reader.varint() == 0);
    CHECK_FALSE(reader.ok());
  }
  WireReader reader(std::string_view("\x05"));
  CHECK(reader.varint(4) == 0);
  CHECK_FALSE(reader.ok());
}

TEST_CASE("a reader that failed once gives nothing more and never reads past the end") {
  WireWriter writer;
  writer.text("0123456789");
  const std::string whole = writer.take_text();
  for (size_t length = 0; length < whole.size(); ++length) {
    WireReader reader{std::string_view(whole).substr(0, length)};
    CHECK(reader.text(100).empty());
    CHECK_FALSE(reader.ok());
    CHECK(reader.u64() == 0);
    CHECK(reader.left() == 0);
    CHECK_FALSE(reader.finished());
  }
  WireReader limited{std::string_view(whole)};
  CHECK(limited.text(9).empty());
  CHECK_FALSE(limited.ok());
}

TEST_CASE("a count is believed only as far as the bytes that are left") {
  WireWriter writer;
  writer.varint(1000);
  for (int i = 0; i < 10; ++i) writer.u32(0);
  WireReader lied(writer.view());
  CHECK(lied.count(4) == 0);
  CHECK_FALSE(lied.ok());
  WireWriter honest;
  honest.varint(10);
  for (int i = 0; i < 10; ++i) honest.u32(0);
  WireReader reader(honest.view());
  CHECK(reader.count(4) == 10);
}

TEST_CASE("bytes that are left over are no whole message") {
  WireWriter writer;
  writer.u16(1);
  WireReader reader(writer.view());
  reader.u8();
  CHECK(reader.ok());
  CHECK_FALSE(reader.finished());
}

}  // namespace
}  // namespace rueda::core
