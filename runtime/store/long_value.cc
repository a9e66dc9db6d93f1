// A value in parts, because one value of a store has a limit:
//
//   KEY      | u32 mark | varint bytes of the whole value | its first bytes |
//   KEY/2    | the next bytes |        each part but the last one has kLongPartBytes
//   KEY/3    ...
//
// The first part is written last and removed first. So a reader that finds the first part finds all of them, and a
// writer that ends half-way leaves no value.
#include "runtime/store/long_value.h"

#include <algorithm>

#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

constexpr uint32_t kLongMark = 0x35555552;  // "RUU5" as bytes
constexpr size_t kLongHeadBytes = 16;       // at least the mark and the longest varint of a length
constexpr size_t kLongPartBytes = kMaxValueBytes - kLongHeadBytes;

std::string part_key(std::string_view key, size_t part) { return std::string(key) + "/" + std::to_string(part); }

size_t parts_of(size_t bytes) { return std::max<size_t>(1, (bytes + kLongPartBytes - 1) / kLongPartBytes); }

Status unreadable(std::string_view key) {
  return {Code::kMismatch,
          "the store's value of \"" + std::string(key) + "\" is not in the parts that this program writes"};
}

struct LongHead {
  size_t bytes = 0;  ///< of the whole value
  std::string_view first;
};

Result<LongHead> read_head(std::string_view key, std::string_view value) {
  WireReader reader(value);
  LongHead head;
  const uint32_t mark = reader.u32();
  head.bytes = static_cast<size_t>(reader.varint());
  if (!reader.ok() || mark != kLongMark || head.bytes > kMaxLongBytes) return unreadable(key);
  head.first = value.substr(value.size() - reader.left());
  return head;
}

}  // namespace

Status set_long(Store& store, std::string_view key, std::string_view value) {
  if (value.size() > kMaxLongBytes) {
    return {Code::kInvalidArgument, "store: the value for \"" + std::string(key) + "\" has " +
                                        std::to_string(value.size()) + " bytes in parts; the limit is " +
                                        std::to_string(kMaxLongBytes)};
  }
  for (size_t part = parts_of(value.size()); part > 1; --part) {
    RUEDA_RETURN_IF_ERROR(store.set(part_key(key, part), value.substr((part - 1) * kLongPartBytes, kLongPartBytes)));
  }
  WireWriter head;
  head.u32(kLongMark);
  head.varint(value.size());
  head.raw(std::as_bytes(std::span(value.substr(0, kLongPartBytes))));
  return store.set(key, head.take_text());
}

Result<std::string> get_long(Store& store, std::string_view key, Deadline deadline) {
  const auto found = store.get(key, deadline);
  if (!found.ok()) return found.status();
  const auto head = read_head(key, found.value());
  if (!head.ok()) return head.status();
  std::string value(head.value().first);
  for (size_t part = 2; part <= parts_of(head.value().bytes); ++part) {
    const auto more = store.get(part_key(key, part), deadline);
    if (!more.ok()) return more.status();
    value += more.value();
  }
  if (value.size() != head.value().bytes) return unreadable(key);
  return value;
}

Status remove_long(Store& store, std::string_view key) {
  const auto found = store.get(key, Deadline::after(std::chrono::nanoseconds(0)));
  if (!found.ok()) return found.status().code() == Code::kTimeout ? Status() : found.status();
  RUEDA_RETURN_IF_ERROR(store.remove(key));
  const auto head = read_head(key, found.value());
  for (size_t part = 2; head.ok() && part <= parts_of(head.value().bytes); ++part) {
    RUEDA_RETURN_IF_ERROR(store.remove(part_key(key, part)));
  }
  return {};
}

}  // namespace rueda::core
