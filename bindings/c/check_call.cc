// Checks names and group sizes before anything is copied. A name must be UTF-8, because it appears in JSON (timeline,
// flight record, statistics) on ranks and in tools that did not choose it.
#include "bindings/c/check_call.h"

#include <fmt/format.h>

#include <cstdint>

#include "runtime/agreement/messages.h"

namespace rueda::core {
namespace {

// The length in bytes of the character that begins at `at`, or 0 if it is not UTF-8 (RFC 3629; table 3-7 of the Unicode
// standard).
size_t utf8_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : uint8_t{0}; };
  const auto within = [&](size_t i, uint8_t least, uint8_t most) { return byte(i) >= least && byte(i) <= most; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {  // neither longer than needed nor a surrogate
    const bool second = within(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (first < 0xf0 || first > 0xf4) return 0;
  const bool second = within(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
  return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
}

}  // namespace

Status check_group_size(size_t count) {
  if (count <= kMaxGroupSize) return {};
  return {Code::kInvalidArgument, fmt::format("a group of {} tensors; the limit is {}", count, kMaxGroupSize)};
}

Status check_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return {Code::kInvalidArgument, fmt::format("the name \"{}...\" has {} bytes, the limit is {}", name.substr(0, 32),
                                                name.size(), kMaxNameBytes)};
  }
  uint8_t bits = 0;
  for (const char each : name) bits |= static_cast<uint8_t>(each);
  if (bits < 0x80) return {};  // ASCII, as most names
  for (size_t at = 0; at < name.size();) {
    const size_t length = utf8_length(name, at);
    if (length == 0) {
      return {Code::kInvalidArgument, fmt::format("a name of {} bytes is not UTF-8: byte {} is 0x{:02x}, behind \"{}\"",
                                                  name.size(), at, static_cast<uint8_t>(name[at]), name.substr(0, at))};
    }
    at += length;
  }
  return {};
}

}  // namespace rueda::core
