#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "runtime/diagnosis/timeline_record.h"

namespace rueda::core {

/// Writes records as events of Chrome's trace format (the "Trace Event Format" document), which Perfetto reads as well:
///
///   process  a rank
///   thread   a phase of batches, of one process set: batch, pack, reduce, wait, unpack
///   async    "negotiate", one track per tensor: from when this rank submitted it until all ranks had, with an instant
///            on rank 0's track when each other rank did; "queue", one per batch
///
/// Every event ends with ",\n", holds no other newline, and is shorter than kMaxEventBytes. Times are microseconds of
/// rank 0's steady clock.
class TimelineJson {
 public:
  static constexpr size_t kMaxEventBytes = 4000;

  /// The names of a rank's tracks: once, before its other events.
  void name_rank(int rank, std::string_view host, int64_t pid);
  void name_tracks(int rank, uint32_t set);
  void add(int rank, const TimelineRecord& record);
  /// What was written; nothing is left.
  std::string take() { return std::exchange(text_, {}); }
  size_t bytes() const { return text_.size(); }

 private:
  /// The events of one tensor's negotiation but for what differs each time.
  struct Negotiation {
    std::string begin, arguments, arrival, end;
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Negotiations = std::unordered_map<std::string, Negotiation, NameHash, std::equal_to<>>;
  static constexpr size_t kMostNegotiations = 1 << 14;

  const Negotiation& negotiation_of(int rank, const NegotiatedRecord& record);
  void add_negotiated(int rank, const NegotiatedRecord& record);
  void add_batch(int rank, const BatchRecord& record);
  void instant(int rank, std::string_view what, SteadyClock::time_point when);
  void span(int rank, uint32_t track, std::string_view name, const PhaseLog::Extent& extent);
  void begin(char phase, int rank, uint32_t track, std::string_view name);
  void end();
  void name_of_track(int rank, uint32_t track, const std::string& name);

  void literal(std::string_view text) { text_.append(text); }
  void number(uint64_t value);
  void quoted(std::string_view text);
  void time(const char* key, SteadyClock::time_point when);
  void duration(const char* key, std::chrono::nanoseconds time);
  void micros(int64_t nanoseconds);
  void id(uint64_t value);

  std::string text_;
  std::map<std::tuple<int, uint32_t, OpKind>, Negotiations> negotiations_;
  size_t negotiation_count_ = 0;
};

}  // namespace rueda::core
