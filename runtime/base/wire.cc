// Bytes on the wire. The writer appends and cannot fail. The reader treats every byte as hostile: it never reads past
// the end, and after the first fault it returns zeros, so that a parser checks once at the end instead of at each
// field.
#include "runtime/base/wire.h"

#include <algorithm>
#include <array>
#include <bit>

namespace rueda::core {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in memory");

void WireWriter::long_varint(uint64_t value) {
  std::array<std::byte, 10> bytes;
  size_t count = 0;
  for (; value >= 0x80; value >>= 7) bytes[count++] = static_cast<std::byte>(value | 0x80);
  bytes[count++] = static_cast<std::byte>(value);
  raw(std::span(bytes).first(count));
}

void WireWriter::bytes(std::span<const std::byte> value) {
  varint(value.size());
  raw(value);
}

std::string WireWriter::take_text() {
  std::string text(reinterpret_cast<const char*>(buffer_.data()), buffer_.size());
  buffer_.clear();
  return text;
}

void WireReader::fail() {
  ok_ = false;
  rest_ = {};
}

uint64_t WireReader::varint(uint64_t limit) {
  // Most numbers have one byte.
  const uint64_t first = rest_.empty() ? 0x80 : static_cast<uint64_t>(rest_.front());
  if (first < 0x80 && first <= limit) {
    rest_ = rest_.subspan(1);
    return first;
  }
  uint64_t value = 0;
  const size_t most = std::min<size_t>(rest_.size(), 10);  // 0 after a fault: nothing is left
  for (size_t i = 0; i < most; ++i) {
    const auto byte = static_cast<uint64_t>(rest_[i]);
    const uint64_t bits = byte & 0x7f;
    if (i == 9 && bits > 1) break;  // the tenth byte holds bit 63 alone
    value |= bits << (7 * i);
    if ((byte & 0x80) != 0) continue;
    if (value > limit) break;
    rest_ = rest_.subspan(i + 1);
    return value;
  }
  fail();
  return 0;
}

size_t WireReader::count(size_t least_bytes_each) {
  // A count that could not fit in the remaining bytes is refused before anyone allocates for it.
  return static_cast<size_t>(varint(rest_.size() / (least_bytes_each == 0 ? 1 : least_bytes_each)));
}

std::span<const std::byte> WireReader::bytes(size_t limit) { return raw(static_cast<size_t>(varint(limit))); }

std::string WireReader::text(size_t limit) {
  const auto source = bytes(limit);
  return std::string(reinterpret_cast<const char*>(source.data()), source.size());
}

std::span<const std::byte> WireReader::raw(size_t count) {
  if (count > rest_.size()) {
    fail();
    return {};
  }
  const auto source = rest_.first(count);
  rest_ = rest_.subspan(count);
  return source;
}

}  // namespace rueda::core
