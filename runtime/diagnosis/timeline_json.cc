#include "runtime/diagnosis/timeline_json.h"

#include <algorithm>
#include <charconv>
#include <functional>

namespace rueda::core {
namespace {

/// Tracks of one process set; those of the next one follow.
enum Track : uint32_t { kNegotiate = 0, kBatchTrack = 1, kFirstPhase = 2 };
constexpr uint32_t kTracksOfSet = 8;

uint32_t track_of(uint32_t set, uint32_t track) { return set * kTracksOfSet + track + 1; }

/// The same for all operations of a name, so that a viewer shows them in one row.
uint64_t tensor_id(const NegotiatedRecord& record) {
  const uint64_t place = (static_cast<uint64_t>(record.set) << 8) | static_cast<uint64_t>(record.kind);
  return std::hash<std::string_view>()(record.name) ^ (record.name.empty() ? place << 16 : place << 48);
}

std::string_view name_of_tensor(const NegotiatedRecord& record) {
  return record.name.empty() ? std::string_view(name_of(record.kind)) : record.name;
}

}  // namespace

void TimelineJson::number(uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  text_.append(digits, static_cast<size_t>(end - digits));
}

void TimelineJson::quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto plain = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return c != '"' && c != '\\' && byte >= 0x20 && byte != 0x7f;
  };
  text_ += '"';
  while (!text.empty()) {
    const auto run = static_cast<size_t>(std::find_if_not(text.begin(), text.end(), plain) - text.begin());
    text_.append(text.substr(0, run));
    text.remove_prefix(run);
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    if (byte == '"' || byte == '\\') {
      text_.append({'\\', text.front()});
    } else {
      text_.append({'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
    }
    text.remove_prefix(1);
  }
  text_ += '"';
}

/// With three decimals.
void TimelineJson::micros(int64_t nanoseconds) {
  if (nanoseconds < 0) text_ += '-';
  const auto magnitude = static_cast<uint64_t>(std::abs(nanoseconds));
  number(magnitude / 1000);
  const uint64_t rest = magnitude % 1000;
  text_.append({'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                static_cast<char>('0' + rest % 10)});
}

void TimelineJson::time(const char* key, SteadyClock::time_point when) {
  literal(key);
  micros(when.time_since_epoch().count());
}

void TimelineJson::duration(const char* key, std::chrono::nanoseconds time) {
  literal(key);
  micros(std::max<int64_t>(time.count(), 0));
}

void TimelineJson::id(uint64_t value) {
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value, 16).ptr;
  literal(",\"id\":\"");
  text_.append(digits, static_cast<size_t>(end - digits));
  text_ += '"';
}

void TimelineJson::begin(char phase, int rank, uint32_t track, std::string_view name) {
  literal("{\"ph\":\"");
  text_ += phase;
  literal("\",\"pid\":");
  number(static_cast<uint64_t>(rank));
  literal(",\"tid\":");
  number(track);
  literal(",\"name\":");
  quoted(name);
}

void TimelineJson::end() { literal("},\n"); }

void TimelineJson::name_of_track(int rank, uint32_t track, const std::string& name) {
  begin('M', rank, track, "thread_name");
  literal(",\"args\":{\"name\":");
  quoted(name);
  text_ += '}';
  end();
  begin('M', rank, track, "thread_sort_index");
  literal(",\"args\":{\"sort_index\":");
  number(track);
  text_ += '}';
  end();
}

void TimelineJson::name_rank(int rank, std::string_view host, int64_t pid) {
  begin('M', rank, 0, "process_name");
  literal(",\"args\":{\"name\":");
  quoted("rank " + std::to_string(rank) + " (" + std::string(host.substr(0, kMaxTimelineNameBytes)) + ", pid " +
         std::to_string(pid) + ")");
  text_ += '}';
  end();
  begin('M', rank, 0, "process_sort_index");
  literal(",\"args\":{\"sort_index\":");
  number(static_cast<uint64_t>(rank));
  text_ += '}';
  end();
}

void TimelineJson::name_tracks(int rank, uint32_t set) {
  const std::string suffix = set == 0 ? "" : ", process set " + std::to_string(set);
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
  } else if (const auto* round = std::get_if<RoundRecord>(&record)) {
    instant(rank, "round", round->when);
  } else {
    const auto& lost = std::get<LostRecord>(record);
    instant(rank, std::to_string(lost.records) + " records lost: too many for the memory set aside", lost.when);
  }
}

void TimelineJson::add_negotiated(int rank, const NegotiatedRecord& record) {
  const Negotiation& parts = negotiation_of(rank, record);
  literal(parts.begin);
  micros(record.submitted.time_since_epoch().count());
  literal(parts.arguments);
  number(record.batch);
  literal(",\"bytes\":");
  number(record.bytes);
  text_ += '}';
  end();
  if (rank != 0) {
    literal(parts.arrival);
    micros(record.submitted.time_since_epoch().count());
    end();
  }
  literal(parts.end);
  micros(record.agreed.time_since_epoch().count());
  end();
}

/// What the events of a tensor have in common is written once.
const TimelineJson::Negotiation& TimelineJson::negotiation_of(int rank, const NegotiatedRecord& record) {
  auto& known = negotiations_[{rank, record.set, record.kind}];
  const auto found = known.find(record.name);
  if (found != known.end()) return found->second;
  if (negotiation_count_++ == kMostNegotiations) {
    negotiations_.clear();
    negotiation_count_ = 0;
    return negotiation_of(rank, record);
  }
  const uint64_t tensor = tensor_id(record);
  const uint32_t track = track_of(record.set, kNegotiate);
  const size_t before = text_.size();
  const auto written = [&](char phase, int process, std::string_view name) {
    begin(phase, process, track, name);
    literal(",\"cat\":\"negotiate\"");
    id(tensor);
    literal(",\"ts\":");
    std::string text = text_.substr(before);
    text_.resize(before);
    return text;
  };
  Negotiation parts;
  parts.begin = written('b', rank, name_of_tensor(record));
  parts.arrival = written('n', 0, "rank " + std::to_string(rank));
  parts.end = written('e', rank, name_of_tensor(record));
  parts.arguments = ",\"args\":{\"op\":\"" + std::string(name_of(record.kind)) +
                    "\",\"set\":" + std::to_string(record.set) + ",\"batch\":";
  return known.emplace(record.name, std::move(parts)).first->second;
}

void TimelineJson::add_batch(int rank, const BatchRecord& record) {
  const uint64_t batch = (static_cast<uint64_t>(record.set) << 48) ^ record.number;
  const uint32_t track = track_of(record.set, kBatchTrack);
  for (const char phase : {'b', 'e'}) {
    begin(phase, rank, track, "queue");
    literal(",\"cat\":\"queue\"");
    id(batch);
    time(",\"ts\":", phase == 'b' ? record.agreed : record.begun);
    end();
  }
  begin('X', rank, track, record.row);
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
  text_ += '}';
  end();
  for (size_t phase = 0; phase < kPhases; ++phase) {
    span(rank, track_of(record.set, kFirstPhase + static_cast<uint32_t>(phase)), kPhaseNames[phase],
         record.phases[phase]);
  }
}

void TimelineJson::span(int rank, uint32_t track, std::string_view name, const PhaseLog::Extent& extent) {
  if (extent.first == SteadyClock::time_point{}) return;
  begin('X', rank, track, name);
  time(",\"ts\":", extent.first);
  duration(",\"dur\":", extent.last - extent.first);
  duration(",\"args\":{\"busy_us\":", extent.busy);
  text_ += '}';
  end();
}

void TimelineJson::instant(int rank, std::string_view what, SteadyClock::time_point when) {
  begin('i', rank, track_of(0, kBatchTrack), what);
  time(",\"ts\":", when);
  literal(",\"s\":\"p\"");
  end();
}

}  // namespace rueda::core
