// Timeline records as bytes. They are compact, because a rank keeps them in a bounded memory until rank 0 takes them,
// and they are read by another process, so every length and time is checked. Each `put` has a `read_` with the same
// fields in the same order.
#include "runtime/diagnosis/timeline_record.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace rueda::core {
namespace {

enum class Kind : uint8_t { kNegotiated, kBatch, kSet, kRound, kLost };
constexpr size_t kMaxAlgorithmBytes = 64;
constexpr size_t kMaxSetBytes = 400;  // each byte may take six in JSON, and an event has a limit

using Time = SteadyClock::time_point;

/// Eight bytes; a varint of a steady clock would take nine.
void put_time(WireWriter& writer, Time time) { writer.i64(time.time_since_epoch().count()); }

/// Returns the text, cut to `most` bytes between letters of UTF-8, with "..." behind it.
std::string cut_end(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr std::string_view kMore = "...";
  size_t end = most - kMore.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kMore);
}

/// Returns the end of a long name, which tells tensors apart, from the beginning of a letter on.
std::string_view cut(std::string_view name) {
  name.remove_prefix(name.size() - std::min(name.size(), kMaxTimelineNameBytes));
  while (!name.empty() && (static_cast<unsigned char>(name.front()) & 0xc0) == 0x80)
    name.remove_prefix(1);  // the rest of a letter of UTF-8 that was cut
  return name;
}

/// Reads fields and moves times to another clock. A time of 0 means "never" and stays.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::chrono::nanoseconds shift) : wire_(bytes), shift_(shift) {}
  WireReader& wire() { return wire_; }
  Time time() {
    const int64_t count = wire_.i64();
    if (count < 0 || count > INT64_MAX / 4) wire_.fail();  // so that adding the shift cannot overflow
    return count == 0 ? Time{} : Time(std::chrono::nanoseconds(count) + shift_);
  }
  std::string_view text(size_t limit) {
    const std::span<const std::byte> bytes = wire_.bytes(limit);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  OpKind kind() {
    const uint8_t kind = wire_.u8();
    if (kind >= kOpKindCount) wire_.fail();
    return static_cast<OpKind>(kind);
  }

 private:
  WireReader wire_;
  const std::chrono::nanoseconds shift_;
};

/// Whether a batch has phases of a device.
enum class OnDevice : uint8_t { kNo, kYes };

/// A phase that never ran is a single 0.
void put_extents(WireWriter& writer, std::span<const PhaseExtent> extents) {
  for (const PhaseExtent& extent : extents) {
    put_time(writer, extent.first);
    if (extent.first == Time{}) continue;
    put_time(writer, extent.last);
    writer.varint(static_cast<uint64_t>(extent.busy.count()));
  }
}

void read_extents(Reader& reader, std::span<PhaseExtent> extents) {
  for (PhaseExtent& extent : extents) {
    extent.first = reader.time();
    if (extent.first == Time{}) continue;
    extent.last = reader.time();
    extent.busy = std::chrono::nanoseconds(static_cast<int64_t>(reader.wire().varint(INT64_MAX)));
  }
}

NegotiatedRecord read_negotiated(Reader& reader) {
  NegotiatedRecord record;
  record.name = reader.text(kMaxTimelineNameBytes);
  record.kind = reader.kind();
  record.set = static_cast<uint32_t>(reader.wire().varint(UINT32_MAX));
  record.bytes = reader.wire().varint();
  record.batch = reader.wire().varint();
  record.submitted = reader.time();
  record.agreed = reader.time();
  return record;
}

BatchRecord read_batch(Reader& reader) {
  BatchRecord record;
  WireReader& wire = reader.wire();
  record.set = static_cast<uint32_t>(wire.varint(UINT32_MAX));
  record.number = wire.varint();
  record.algorithm = reader.text(kMaxAlgorithmBytes);
  record.kind = reader.kind();
  record.first = reader.text(kMaxTimelineNameBytes);
  record.tensors = wire.varint();
  record.bytes = wire.varint();
  record.agreed = reader.time();
  record.begun = reader.time();
  record.ended = reader.time();
  read_extents(reader, record.phases);
  const auto on_device = static_cast<OnDevice>(wire.u8());
  if (on_device > OnDevice::kYes) wire.fail();
  if (on_device == OnDevice::kYes) read_extents(reader, record.device);
  return record;
}

SetRecord read_set(Reader& reader) {
  SetRecord record;
  record.set = static_cast<uint32_t>(reader.wire().varint(UINT32_MAX));
  record.words = reader.text(kMaxSetBytes);
  return record;
}

TimelineRecord read_record(Reader& reader) {
  switch (static_cast<Kind>(reader.wire().u8())) {
    case Kind::kNegotiated: return read_negotiated(reader);
    case Kind::kBatch: return read_batch(reader);
    case Kind::kSet: return read_set(reader);
    case Kind::kRound: return RoundRecord{reader.time()};
    case Kind::kLost: {
      const uint64_t records = reader.wire().varint();
      return LostRecord{records, reader.time()};
    }
  }
  reader.wire().fail();
  return RoundRecord{};
}

}  // namespace

void put(WireWriter& writer, const NegotiatedRecord& record) {
  writer.u8(static_cast<uint8_t>(Kind::kNegotiated));
  writer.text(cut(record.name));
  writer.u8(static_cast<uint8_t>(record.kind));
  writer.varint(record.set);
  writer.varint(record.bytes);
  writer.varint(record.batch);
  put_time(writer, record.submitted);
  put_time(writer, record.agreed);
}

void put(WireWriter& writer, const BatchRecord& record) {
  writer.u8(static_cast<uint8_t>(Kind::kBatch));
  writer.varint(record.set);
  writer.varint(record.number);
  writer.text(record.algorithm.substr(0, kMaxAlgorithmBytes));
  writer.u8(static_cast<uint8_t>(record.kind));
  writer.text(cut(record.first));
  writer.varint(record.tensors);
  writer.varint(record.bytes);
  put_time(writer, record.agreed);
  put_time(writer, record.begun);
  put_time(writer, record.ended);
  put_extents(writer, record.phases);
  const bool on_device =
      std::ranges::any_of(record.device, [](const PhaseExtent& extent) { return extent.first != Time{}; });
  writer.u8(static_cast<uint8_t>(on_device ? OnDevice::kYes : OnDevice::kNo));
  if (on_device) put_extents(writer, record.device);
}

void put(WireWriter& writer, const SetRecord& record) {
  writer.u8(static_cast<uint8_t>(Kind::kSet));
  writer.varint(record.set);
  writer.text(cut_end(record.words, kMaxSetBytes));
}

void put(WireWriter& writer, const RoundRecord& record) {
  writer.u8(static_cast<uint8_t>(Kind::kRound));
  put_time(writer, record.when);
}

void put(WireWriter& writer, const LostRecord& record) {
  writer.u8(static_cast<uint8_t>(Kind::kLost));
  writer.varint(record.records);
  put_time(writer, record.when);
}

bool read_records(std::span<const std::byte> bytes, std::chrono::nanoseconds shift,
                  const std::function<void(const TimelineRecord&)>& take) {
  Reader reader(bytes, shift);
  while (!reader.wire().finished()) {
    const TimelineRecord record = read_record(reader);
    if (!reader.wire().ok()) return false;
    take(record);
  }
  return true;
}

}  // namespace rueda::core
