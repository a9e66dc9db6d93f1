// The wire format of a verdict, as `death_key` holds it:
//
//   | u32 mark | u64 epoch | i32 rank | i64 pid | text host | text cause | u8 kind | i64 worker |
//
// A text is cut before it is written: a cause that is too long must not make the news of a death unreadable.
#include "runtime/store/death.h"

#include "runtime/base/rank_ranges.h"
#include "runtime/base/wire.h"

namespace rueda::core {
namespace {

constexpr uint32_t kMark = 0x44454144;  // "DAED" as bytes
constexpr size_t kMaxTextBytes = 4096;

}  // namespace

Status DeathVerdict::status() const {
  const std::string whole = kind == DeathKind::kDied ? rank_name(rank, host, pid, worker) + " died: " + cause : cause;
  return {Code::kPeerLost, whole, rank};
}

std::string encode(const DeathVerdict& verdict) {
  WireWriter writer;
  writer.u32(kMark);
  writer.u64(verdict.epoch);
  writer.i32(verdict.rank);
  writer.i64(verdict.pid);
  writer.text(verdict.host.substr(0, kMaxTextBytes));
  writer.text(verdict.cause.substr(0, kMaxTextBytes));
  writer.u8(static_cast<uint8_t>(verdict.kind));
  writer.i64(verdict.worker);
  return writer.take_text();
}

std::optional<DeathVerdict> decode_death(std::string_view bytes) {
  WireReader reader(bytes);
  DeathVerdict verdict;
  const uint32_t mark = reader.u32();
  verdict.epoch = reader.u64();
  verdict.rank = reader.i32();
  verdict.pid = reader.i64();
  verdict.host = reader.text(kMaxTextBytes);
  verdict.cause = reader.text(kMaxTextBytes);
  const uint8_t kind = reader.u8();
  verdict.worker = reader.i64();
  if (!reader.finished() || mark != kMark || verdict.rank < 0 || verdict.worker < -1 ||
      kind > static_cast<uint8_t>(DeathKind::kLeft))
    return std::nullopt;
  verdict.kind = static_cast<DeathKind>(kind);
  return verdict;
}

}  // namespace rueda::core
