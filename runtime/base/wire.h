#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core {

/// Appends little-endian values to a growing buffer. Has no limits: the reader checks them. Not shared between threads.
///
///   u8 u16 u32 u64 i32 i64 f64   fixed width, little-endian, unaligned
///   varint                       LEB128: 7 bits a byte, low first, at most 10 bytes
///   bytes, text                  varint length, then the bytes
class WireWriter {
 public:
  void u8(uint8_t value) { fixed(value); }
  void u16(uint16_t value) { fixed(value); }
  void u32(uint32_t value) { fixed(value); }
  void u64(uint64_t value) { fixed(value); }
  void i32(int32_t value) { fixed(value); }
  void i64(int64_t value) { fixed(value); }
  void f64(double value) { fixed(value); }
  void varint(uint64_t value) {
    if (value < 0x80) return buffer_.push_back(static_cast<std::byte>(value));
    long_varint(value);
  }
  void bytes(std::span<const std::byte> value);
  void text(std::string_view value) { bytes(std::as_bytes(std::span(value))); }
  /// Appends bytes without a length before them.
  void raw(std::span<const std::byte> value) { buffer_.insert(buffer_.end(), value.begin(), value.end()); }

  size_t size() const { return buffer_.size(); }
  bool empty() const { return buffer_.empty(); }
  std::span<const std::byte> view() const { return buffer_; }
  /// Returns what was written, and empties the writer.
  std::vector<std::byte> take() { return std::exchange(buffer_, {}); }
  std::string take_text();
  /// Allocates room for so many bytes at once.
  void reserve(size_t bytes) { buffer_.reserve(bytes); }
  /// Empties the writer and keeps its memory.
  void clear() { buffer_.clear(); }

 private:
  template <typename T>
  void fixed(T value) {
    const size_t at = buffer_.size();
    buffer_.resize(at + sizeof(T));
    std::memcpy(buffer_.data() + at, &value, sizeof(T));
  }
  void long_varint(uint64_t value);
  std::vector<std::byte> buffer_;
};

/// Reads what a WireWriter wrote, out of bytes that are not trusted. Never reads past the end: the first value that
/// does not fit, or breaks a limit, makes the reader fail, and from then on every value is 0 or empty. So a parser
/// reads a whole message and asks `ok()` (or `finished()`) once, before it uses anything. Borrows the bytes. Not shared
/// between threads.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : rest_(bytes) {}
  explicit WireReader(std::string_view bytes) : rest_(std::as_bytes(std::span(bytes))) {}

  uint8_t u8() { return fixed<uint8_t>(); }
  uint16_t u16() { return fixed<uint16_t>(); }
  uint32_t u32() { return fixed<uint32_t>(); }
  uint64_t u64() { return fixed<uint64_t>(); }
  int32_t i32() { return fixed<int32_t>(); }
  int64_t i64() { return fixed<int64_t>(); }
  double f64() { return fixed<double>(); }
  /// Fails on more than 10 bytes, on bits past 64, and on a value over `limit`.
  uint64_t varint(uint64_t limit = UINT64_MAX);
  /// Reads a count of items that take at least `least_bytes_each` bytes. Fails if so many cannot be left, so a false
  /// count never makes the caller allocate.
  size_t count(size_t least_bytes_each);
  /// Returns a view of the reader's bytes. Fails if there are more than `limit`.
  std::span<const std::byte> bytes(size_t limit);
  std::string text(size_t limit);
  /// The next `count` bytes, without a length before them.
  std::span<const std::byte> raw(size_t count);
  /// Everything that is left.
  std::span<const std::byte> rest() { return raw(rest_.size()); }

  bool ok() const { return ok_; }
  size_t left() const { return rest_.size(); }
  /// Whether all was read and nothing failed: a parser of a whole message asks this at the end.
  bool finished() const { return ok_ && rest_.empty(); }
  /// Makes the reader fail, for a value that is well formed but not allowed.
  void fail();

 private:
  template <typename T>
  T fixed() {
    T value{};
    const auto source = raw(sizeof(T));
    if (source.size() == sizeof(T)) std::memcpy(&value, source.data(), sizeof(T));
    return value;
  }
  std::span<const std::byte> rest_;
  bool ok_ = true;
};

}  // namespace rueda::core
