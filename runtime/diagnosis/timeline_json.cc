// Records as events of Chrome's trace format. A training step makes thousands of events, so the two frequent ones (a
// negotiation and an arrival) are put together from prepared pieces by `EventText`, without a check and without an
// allocation; all others go through `begin`, `literal` and `quoted`. The tracks of a rank are numbered
//
//   2 * (16 * set + 1)           negotiate        even numbers: of process sets
//   2 * (16 * set + 2)           batch
//   2 * (16 * set + 3) and on    the phases, then those of devices
//   2 * n + 1                    named tensor n   odd numbers, sorted behind all sets
#include "runtime/diagnosis/timeline_json.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "runtime/base/rank_ranges.h"

namespace rueda::core {
namespace {

/// Tracks of one process set; those of the next one follow.
enum Track : uint32_t { kNegotiate = 0, kBatchTrack = 1, kFirstPhase = 2, kFirstDevicePhase = kFirstPhase + kPhases };
constexpr uint32_t kTracksOfSet = 16;
static_assert(kFirstDevicePhase + kDevicePhases < kTracksOfSet);
/// Named tensors are shown below all sets.
constexpr uint32_t kSortTensors = 1 << 30;

/// Tracks of sets have even numbers, those of tensors odd ones.
uint32_t track_of(uint32_t set, uint32_t track) { return 2 * (set * kTracksOfSet + track + 1); }

std::string arrival_on(uint32_t track) {
  return "{\"ph\":\"i\",\"pid\":0,\"tid\":" + std::to_string(track) + ",\"name\":\"rank ";
}

/// Writes an event piece by piece at the end of a buffer, without checks: the caller's pieces are shorter than
/// kMaxEventBytes together, and so much was reserved. For the most frequent events.
class EventText {
 public:
  explicit EventText(fmt::memory_buffer& text) : text_(text) {
    text.reserve(text.size() + TimelineJson::kMaxEventBytes);
    at_ = text.data() + text.size();
  }
  ~EventText() { text_.resize(static_cast<size_t>(at_ - text_.data())); }
  EventText(const EventText&) = delete;
  EventText& operator=(const EventText&) = delete;

  EventText& operator<<(std::string_view piece) {
    std::memcpy(at_, piece.data(), piece.size());
    at_ += piece.size();
    return *this;
  }
  EventText& operator<<(uint64_t value) {
    at_ = std::to_chars(at_, at_ + kMostDigits, value).ptr;
    return *this;
  }
  EventText& operator<<(int rank) { return *this << static_cast<uint64_t>(rank); }
  /// Microseconds with three decimals.
  EventText& operator<<(std::chrono::nanoseconds time) {
    if (time.count() < 0) *at_++ = '-';
    const auto magnitude = static_cast<uint64_t>(std::abs(time.count()));
    const uint64_t rest = magnitude % 1000;
    *this << magnitude / 1000;
    const char decimals[] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                             static_cast<char>('0' + rest % 10)};
    return *this << std::string_view(decimals, sizeof decimals);
  }

 private:
  static constexpr size_t kMostDigits = 20;
  fmt::memory_buffer& text_;
  char* at_;
};

std::string_view name_of_tensor(const NegotiatedRecord& record) {
  return record.name.empty() ? std::string_view(name_of(record.kind)) : record.name;
}

}  // namespace

void TimelineJson::number(uint64_t value) { EventText(text_) << value; }

/// Writes a JSON string. Runs of plain characters are copied at once; names seldom have any other.
void TimelineJson::quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c != '"' && c != '\\' && byte >= 0x20 && byte != 0x7f;
  };
  letter('"');
  while (!text.empty()) {
    const auto run = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), plain) - text.begin());
    literal(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte == '"' || byte == '\\') {
      letter('\\');
      letter(text.front());
    } else {
      literal("\\u00");
      letter(kHex[byte >> 4]);
      letter(kHex[byte & 15]);
    }
    text.remove_prefix(1);
  }
  letter('"');
}

void TimelineJson::micros(int64_t nanoseconds) { EventText(text_) << std::chrono::nanoseconds(nanoseconds); }

void TimelineJson::time(const char* key, SteadyClock::time_point when) {
  literal(key);
  micros(when.time_since_epoch().count());
}

void TimelineJson::duration(const char* key, std::chrono::nanoseconds time) {
  literal(key);
  micros(std::max<int64_t>(time.count(), 0));
}

void TimelineJson::id(uint64_t value) {
  literal(",\"id\":\"");
  number(value);
  letter('"');
}

void TimelineJson::begin(char phase, int rank, uint32_t track, std::string_view name) {
  literal("{\"ph\":\"");
  letter(phase);
  literal("\",\"pid\":");
  number(static_cast<uint64_t>(rank));
  literal(",\"tid\":");
  number(track);
  literal(",\"name\":");
  quoted(name);
}

void TimelineJson::end() { literal("},\n"); }

void TimelineJson::name_of_track(int rank, uint32_t track, std::string_view name) {
  begin('M', rank, track, "thread_name");
  literal(",\"args\":{\"name\":");
  quoted(name);
  letter('}');
  end();
  sort_track(rank, track, track);
}

void TimelineJson::sort_track(int rank, uint32_t track, uint32_t position) {
  begin('M', rank, track, "thread_sort_index");
  literal(",\"args\":{\"sort_index\":");
  number(position);
  letter('}');
  end();
}

/// The process of a rank, sorted by rank and not by the order in which ranks sent their first records. In an elastic
/// job worker and plan stand beside the name as numbers, too, for programs that put the files of several plans
/// together.
void TimelineJson::name_rank(int rank, const Rank& known) {
  const std::string who = worker_name(known.worker, rank, known.plan);
  begin('M', rank, 0, "process_name");
  literal(",\"args\":{\"name\":");
  quoted(who + " (" + known.host.substr(0, kMaxTimelineNameBytes) + ", pid " + std::to_string(known.pid) + ")");
  if (known.plan != 0) {
    literal(",\"worker\":");
    number(static_cast<uint64_t>(known.worker));
    literal(",\"plan\":");
    number(known.plan);
  }
  letter('}');
  end();
  begin('M', rank, 0, "process_sort_index");
  literal(",\"args\":{\"sort_index\":");
  number(static_cast<uint64_t>(rank));
  letter('}');
  end();
}

void TimelineJson::name_tracks(int rank, uint32_t set, std::string_view of) {
  const std::string suffix = words_[set] = of;
  name_of_track(rank, track_of(set, kNegotiate), "negotiate" + suffix);
  name_of_track(rank, track_of(set, kBatchTrack), "batch" + suffix);
  for (uint32_t phase = 0; phase < kPhases; ++phase) {
    name_of_track(rank, track_of(set, kFirstPhase + phase), kPhaseNames[phase] + suffix);
  }
}

void TimelineJson::add(int rank, const TimelineRecord& record) {
  if (const auto* negotiated = std::get_if<NegotiatedRecord>(&record)) {
    add_negotiated(rank, *negotiated);
  } else if (const auto* batch = std::get_if<BatchRecord>(&record)) {
    add_batch(rank, *batch);
  } else if (std::holds_alternative<SetRecord>(record)) {
    return;  // it names tracks, and TimelineWriter has taken it
  } else if (const auto* round = std::get_if<RoundRecord>(&record)) {
    instant(rank, "round", round->when);
  } else {
    const auto& lost = std::get<LostRecord>(record);
    instant(rank, std::to_string(lost.records) + " records lost: too many for the memory set aside", lost.when);
  }
}

void TimelineJson::add_negotiated(int rank, const NegotiatedRecord& record) {
  Tensor* const tensor = tensor_of(record);
  if (tensor == nullptr || !takes_thread(*tensor, rank, record)) return add_unthreaded(rank, record);
  EventText(text_) << "{\"ph\":\"X\",\"pid\":" << rank << tensor->of_span << record.submitted.time_since_epoch()
                   << ",\"dur\":" << std::max(record.agreed - record.submitted, std::chrono::nanoseconds(0))
                   << ",\"args\":{\"batch\":" << record.batch << ",\"bytes\":" << record.bytes << "}},\n";
  if (rank != 0) arrived(rank, tensor->of_arrival, record.submitted);
}

/// Returns null if this negotiation has no thread: the operation has no name, or too many names came before.
TimelineJson::Tensor* TimelineJson::tensor_of(const NegotiatedRecord& record) {
  if (record.name.empty()) return nullptr;
  Tensors& known = tensors_[{record.set, record.kind}];
  if (const auto found = known.find(record.name); found != known.end()) return &found->second;
  if (tensor_count_ == kMostTensors) return nullptr;
  Tensor& tensor = known[std::string(record.name)];
  tensor.track = 2 * tensor_count_++ + 1;
  tensor.of_span = ",\"tid\":" + std::to_string(tensor.track) + ",\"name\":\"negotiate " +
                   std::string(name_of(record.kind)) + "\",\"ts\":";
  tensor.of_arrival = arrival_on(tensor.track);
  return &tensor;
}

/// Whether the last negotiation of the tensor by this rank has ended. Spans of a thread must not overlap, so the other
/// one gets no thread.
bool TimelineJson::takes_thread(Tensor& tensor, int rank, const NegotiatedRecord& record) {
  auto last = tensor.negotiated.find(rank);
  if (last == tensor.negotiated.end()) {
    last = tensor.negotiated.emplace(rank, SteadyClock::time_point::min()).first;
    name_tensor(rank, tensor.track, record);
    // Rank 0's thread shows when other ranks came, and it may be no member of the set.
    if (tensor.negotiated.emplace(0, SteadyClock::time_point::min()).second) name_tensor(0, tensor.track, record);
  }
  if (record.submitted < last->second) return false;
  last->second = record.agreed;
  return true;
}

void TimelineJson::name_tensor(int rank, uint32_t track, const NegotiatedRecord& record) {
  begin('M', rank, track, "thread_name");
  literal(",\"args\":{\"name\":");
  quoted(record.name);
  literal(",\"op\":\"");
  literal(name_of(record.kind));
  literal("\",\"set\":");
  number(record.set);
  letter('}');
  end();
  sort_track(rank, track, kSortTensors + track);
}

void TimelineJson::add_unthreaded(int rank, const NegotiatedRecord& record) {
  const uint32_t track = track_of(record.set, kNegotiate);
  const uint64_t negotiation = unthreaded_++;
  for (const char phase : {'b', 'e'}) {
    begin(phase, rank, track, name_of_tensor(record));
    literal(",\"cat\":\"negotiate\"");
    id(negotiation);
    time(",\"ts\":", phase == 'b' ? record.submitted : record.agreed);
    if (phase == 'b') {
      literal(",\"args\":{\"op\":\"");
      literal(name_of(record.kind));
      literal("\",\"set\":");
      number(record.set);
      literal(",\"batch\":");
      number(record.batch);
      literal(",\"bytes\":");
      number(record.bytes);
      letter('}');
    }
    end();
  }
  if (rank != 0) arrived(rank, arrival_on(track), record.submitted);
}

void TimelineJson::arrived(int rank, std::string_view of_arrival, SteadyClock::time_point when) {
  EventText(text_) << of_arrival << rank << "\",\"ts\":" << when.time_since_epoch() << ",\"s\":\"t\"},\n";
}

/// A batch is a span between an asynchronous "queue" before it and the spans of its phases, each on a track of its own.
void TimelineJson::add_batch(int rank, const BatchRecord& record) {
  // Asynchronous events match by id, so batches of different sets need different ones.
  const uint64_t batch = (static_cast<uint64_t>(record.set) << 48) ^ record.number;
  const uint32_t track = track_of(record.set, kBatchTrack);
  for (const char phase : {'b', 'e'}) {
    begin(phase, rank, track, "queue");
    literal(",\"cat\":\"queue\"");
    id(batch);
    time(",\"ts\":", phase == 'b' ? record.agreed : record.begun);
    end();
  }
  begin('X', rank, track, record.algorithm);
  time(",\"ts\":", record.begun);
  duration(",\"dur\":", record.ended - record.begun);
  literal(",\"args\":{\"op\":\"");
  literal(name_of(record.kind));
  literal("\",\"set\":");
  number(record.set);
  literal(",\"batch\":");
  number(record.number);
  literal(",\"tensors\":");
  number(record.tensors);
  literal(",\"bytes\":");
  number(record.bytes);
  literal(",\"first\":");
  quoted(record.first);
  letter('}');
  end();
  for (size_t phase = 0; phase < kPhases; ++phase) {
    span(rank, track_of(record.set, kFirstPhase + static_cast<uint32_t>(phase)), kPhaseNames[phase],
         record.phases[phase]);
  }
  add_device(rank, record);
}

/// Their tracks are named at the first span, so that other jobs do not show them.
void TimelineJson::add_device(int rank, const BatchRecord& record) {
  for (uint32_t phase = 0; phase < kDevicePhases; ++phase) {
    if (record.device[phase].first == SteadyClock::time_point{}) continue;
    const uint32_t track = track_of(record.set, kFirstDevicePhase + phase);
    if (tracks_of_devices_.emplace(rank, track).second) {
      name_of_track(rank, track, kDevicePhaseNames[phase] + words_[record.set]);
    }
    span(rank, track, kDevicePhaseNames[phase], record.device[phase]);
  }
}

/// Phases that never ran have no span. The span covers the gaps between a phase's pieces; "busy_us" does not.
void TimelineJson::span(int rank, uint32_t track, std::string_view name, const PhaseExtent& extent) {
  if (extent.first == SteadyClock::time_point{}) return;
  begin('X', rank, track, name);
  time(",\"ts\":", extent.first);
  duration(",\"dur\":", extent.last - extent.first);
  duration(",\"args\":{\"busy_us\":", extent.busy);
  letter('}');
  end();
}

void TimelineJson::instant(int rank, std::string_view what, SteadyClock::time_point when) {
  begin('i', rank, track_of(0, kBatchTrack), what);
  time(",\"ts\":", when);
  literal(",\"s\":\"p\"");
  end();
}

}  // namespace rueda::core
