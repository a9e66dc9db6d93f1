#pragma once
#include <spdlog/fmt/fmt.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "runtime/diagnosis/timeline_record.h"

namespace rueda::core {

/// Writes records as events of Chrome's trace format (the "Trace Event Format" document), which Perfetto reads as well:
///
///   process  a rank
///   thread   a phase of batches, of one process set: batch, pack, reduce, wait, unpack, and what a device did if one
///            took part; and behind these one for each named tensor, with its negotiations: a span from when this rank
///            submitted it until all ranks had, on rank 0 with an instant when each other rank did
///   async    "queue", one per batch; and negotiations without a thread: operations without a name, a second
///            negotiation of a name at the same time, as messages may have, and names beyond kMostTensors
///
/// Every event ends with ",\n", holds no other newline, and is shorter than kMaxEventBytes. Times are microseconds of
/// rank 0's steady clock.
class TimelineJson {
 public:
  static constexpr size_t kMaxEventBytes = 4000;

  /// What names a rank. `worker` and `plan` are those of an elastic job; plan 0: it is not elastic.
  struct Rank {
    std::string host;
    int64_t pid = 0;
    int64_t worker = -1;
    uint64_t plan = 0;
  };
  /// Name a rank and its tracks of a set. Call each once, before the events that use it.
  void name_rank(int rank, const Rank& known);
  void name_tracks(int rank, uint32_t set, std::string_view of);
  void add(int rank, const TimelineRecord& record);
  /// What was written since `clear`.
  std::string_view text() const { return {text_.data(), text_.size()}; }
  /// Forgets what was written, and keeps its memory.
  void clear() { text_.clear(); }

 private:
  /// A named tensor of one set and kind.
  struct Tensor {
    uint32_t track = 0;                                 ///< its thread in every rank's process
    std::string of_span;                                ///< the text between process and time in each of its spans
    std::string of_arrival;                             ///< the text of an instant on rank 0, up to the rank that came
    std::map<int, SteadyClock::time_point> negotiated;  ///< by rank: the end of its last negotiation
  };
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };
  using Tensors = std::unordered_map<std::string, Tensor, NameHash, std::equal_to<>>;
  static constexpr uint32_t kMostTensors = 1 << 14;

  Tensor* tensor_of(const NegotiatedRecord& record);
  bool takes_thread(Tensor& tensor, int rank, const NegotiatedRecord& record);
  void name_tensor(int rank, uint32_t track, const NegotiatedRecord& record);
  void add_unthreaded(int rank, const NegotiatedRecord& record);
  void arrived(int rank, std::string_view of_arrival, SteadyClock::time_point when);
  void add_negotiated(int rank, const NegotiatedRecord& record);
  void add_batch(int rank, const BatchRecord& record);
  void add_device(int rank, const BatchRecord& record);
  void instant(int rank, std::string_view what, SteadyClock::time_point when);
  void span(int rank, uint32_t track, std::string_view name, const PhaseExtent& extent);
  void begin(char phase, int rank, uint32_t track, std::string_view name);
  void end();
  void name_of_track(int rank, uint32_t track, std::string_view name);
  void sort_track(int rank, uint32_t track, uint32_t position);

  void letter(char letter) { text_.push_back(letter); }
  void literal(std::string_view text) { text_.append(text.data(), text.data() + text.size()); }
  void number(uint64_t value);
  void quoted(std::string_view text);
  void time(const char* key, SteadyClock::time_point when);
  void duration(const char* key, std::chrono::nanoseconds time);
  void micros(int64_t nanoseconds);
  void id(uint64_t value);

  fmt::memory_buffer text_;
  std::map<std::pair<uint32_t, OpKind>, Tensors> tensors_;
  uint32_t tensor_count_ = 0;
  std::map<uint32_t, std::string> words_;                 ///< of a set, as its tracks are named
  std::set<std::pair<int, uint32_t>> tracks_of_devices_;  ///< by rank: those that have their name
  uint64_t unthreaded_ = 0;  ///< number of negotiations without a thread, which have an id instead
};

}  // namespace rueda::core
