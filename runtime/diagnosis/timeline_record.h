#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <variant>

#include "runtime/base/device_phases.h"
#include "runtime/base/dtype.h"
#include "runtime/base/phase_log.h"
#include "runtime/base/wire.h"

namespace rueda::core {

/// The negotiation of one tensor, as the track "negotiate" shows it.
struct NegotiatedRecord {
  std::string_view name;  ///< empty: unnamed; borrowed
  OpKind kind = OpKind::kAllreduce;
  uint32_t set = 0;
  uint64_t bytes = 0;
  uint64_t batch = 0;  ///< the number of its batch in the set, the same on all ranks
  SteadyClock::time_point submitted;
  SteadyClock::time_point agreed;
};

/// A batch as one rank ran it, as the other tracks show it.
struct BatchRecord {
  uint32_t set = 0;
  uint64_t number = 0;
  std::string_view algorithm;  ///< its name; borrowed, as is `first`
  OpKind kind = OpKind::kAllreduce;
  std::string_view first;  ///< name of its first tensor
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  SteadyClock::time_point agreed;
  SteadyClock::time_point begun;
  SteadyClock::time_point ended;
  PhaseExtents phases{};
  DeviceExtents device{};  ///< of a batch in the memory of a device
};

/// The name of the tracks of a process set. Comes before the first record of the set.
struct SetRecord {
  uint32_t set = 0;
  std::string_view words;  ///< as `of_set` (set_words.h) says it; borrowed
};

/// A round of agreement that issued a batch, if the user wants these marked.
struct RoundRecord {
  SteadyClock::time_point when;
};

/// At this point records are missing, because they did not fit into memory.
struct LostRecord {
  uint64_t records = 0;
  SteadyClock::time_point when;
};

using TimelineRecord = std::variant<NegotiatedRecord, BatchRecord, SetRecord, RoundRecord, LostRecord>;

/// The most bytes that a timeline keeps of a name; it keeps the end.
inline constexpr size_t kMaxTimelineNameBytes = 256;

/// Writes records as bytes, one behind the other: in a rank's memory, and on their way to rank 0. Times are nanoseconds
/// of the rank's own steady clock.
///
///   kind u8, then varints, texts, and times as i64, in the order of the structs' members
void put(WireWriter& writer, const NegotiatedRecord& record);
void put(WireWriter& writer, const BatchRecord& record);
void put(WireWriter& writer, const SetRecord& record);
void put(WireWriter& writer, const RoundRecord& record);
void put(WireWriter& writer, const LostRecord& record);
/// Reads them all and moves their times by `shift`. Returns false if the bytes are not records; those before the fault
/// were given to `take`.
bool read_records(std::span<const std::byte> bytes, std::chrono::nanoseconds shift,
                  const std::function<void(const TimelineRecord&)>& take);

}  // namespace rueda::core
