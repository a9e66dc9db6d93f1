// What the engine tells about itself: figures, the flight record, and the record of an error. Figures are read from
// counters that other threads write at the same time, so two of them may be a moment apart. Anything that may block,
// the user's activity function or a disk, runs on the task thread, except for the record of an error: its epoch is
// over.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/diagnosis/dump_file.h"
#include "runtime/diagnosis/prometheus.h"
#include "runtime/engine/engine.h"
#include "runtime/store/store.h"

namespace rueda::core {
namespace {

using Json = nlohmann::ordered_json;

/// 0 of nothing: a mean before the first operation.
double ratio(double part, uint64_t whole) { return whole == 0 ? 0.0 : part / static_cast<double>(whole); }

/// Only the kinds that were used.
Json kinds_of(const Counters& counters) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < counters.kinds.size(); ++kind) {
    const uint64_t tensors = counters.kinds[kind].tensors.value();
    if (tensors == 0) continue;
    kinds[name_of(static_cast<OpKind>(kind))] = {{"tensors", tensors}, {"bytes", counters.kinds[kind].bytes.value()}};
  }
  return kinds;
}

/// Only the algorithms that ran. "number" is its place in the algorithm table, as dumps name it.
Json algorithms_of(const Counters& counters, const Executor& executor) {
  Json found = Json::array();
  for (size_t algorithm = 0; algorithm < counters.algorithms.size(); ++algorithm) {
    const Counters::Algorithm& counted = counters.algorithms[algorithm];
    if (counted.batches.value() == 0) continue;
    found.push_back({{"number", algorithm},
                     {"name", executor.algorithm_name(static_cast<uint8_t>(algorithm))},
                     {"batches", counted.batches.value()},
                     {"bytes", counted.bytes.value()},
                     {"seconds", counted.time.seconds()}});
  }
  return found;
}

/// Negotiation counts tensors, from submission to agreement; queue and run count batches; wait counts callers' waits.
Json times_of(const Counters& counters) {
  return {
      {"negotiation",
       {{"total", counters.negotiation.seconds()},
        {"mean", ratio(counters.negotiation.seconds(), counters.batched.value())},
        {"max", counters.longest_negotiation.seconds()}}},
      {"queue",
       {{"total", counters.queue.seconds()}, {"mean", ratio(counters.queue.seconds(), counters.batches.value())}}},
      {"run", {{"total", counters.run.seconds()}, {"mean", ratio(counters.run.seconds(), counters.batches.value())}}},
      {"wait", {{"total", counters.wait.seconds()}, {"calls", counters.waits.value()}}}};
}

}  // namespace

/// The keys are a promise to users (docs/guide/diagnosis.md): they may grow, and none may go.
std::string Engine::stats() {
  const Counters& counters = recorder_.counters();
  // `submitted` is read before what has ended, and may be behind it: see `in_flight` below.
  uint64_t bytes = 0;
  for (const Counters::Kind& kind : counters.kinds) bytes += kind.bytes.value();
  const std::chrono::duration<double> uptime = SteadyClock::now() - recorder_.since();
  const uint64_t submitted = counters.submitted.value();
  const uint64_t over = counters.finished.value() + counters.failed.value();
  Json stats = {
      {"rank", plan_.rank},
      {"size", plan_.size},
      {"host", plan_.ranks[static_cast<size_t>(plan_.rank)].host},
      {"epoch", plan_.epoch},
      {"uptime_seconds", uptime.count()},
      {"tensors",
       {{"submitted", submitted},
        {"finished", counters.finished.value()},
        {"failed", counters.failed.value()},
        {"in_flight", submitted - std::min(submitted, over)}}},
      {"bytes", bytes},
      {"kinds", kinds_of(counters)},
      {"batches", counters.batches.value()},
      {"fusion_factor", ratio(static_cast<double>(counters.batched.value()), counters.batches.value())},
      {"seconds", times_of(counters)},
      {"cache", {{"hits", counters.cache_hits.value()}, {"misses", counters.cache_misses.value()}}},
      {"algorithms", algorithms_of(counters, *executor_)},
      {"memory_bytes", memory()},
  };
  if (plan_.elastic.number != 0) {
    stats["plan"] = plan_.elastic.number;
    stats["worker"] = plan_.worker_of(plan_.rank);
  }
  // A host's name may be any bytes, and JSON is UTF-8.
  return stats.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Bytes that this engine holds, by purpose. The shared segment stays mapped for the whole epoch.
std::map<std::string, uint64_t> Engine::memory() {
  return {{"shared_segment", segment_bytes_},
          {"shared_tensors", formation_.arena == nullptr ? 0 : formation_.arena->taken_bytes()},
          {"flight_recorder", recorder_.flight().bytes()},
          {"outputs", output_bytes_.load()},
          {"plugins", plugin_bytes()},
          {"timeline", timeline_.held()}};
}

/// Each rank of a host has a port of its own, in the order of local ranks. In an elastic job a worker keeps its slot,
/// and so its port, while ranks change. A port that is taken costs the metrics and not the job.
void Engine::serve_metrics() {
  const Settings& settings = plan_.settings;
  if (settings.metrics_port == 0) return;
  const bool elastic = plan_.elastic.number != 0;
  const int port = settings.metrics_port + (elastic ? plan_.elastic.slot : plan_.local_rank());
  const std::string labels = prometheus_labels(plan_.rank, plan_.worker_of(plan_.rank), plan_.elastic.number);
  // The page's thread makes it anew for each request, from counters that are atomics.
  const auto page = [this, labels] {
    return prometheus_text(
        recorder_.counters(), labels, [this](uint8_t number) { return executor_->algorithm_name(number); }, memory());
  };
  Result<std::unique_ptr<HttpPage>> served =
      HttpPage::start(settings.metrics_address, static_cast<uint16_t>(port), page);
  if (served.ok()) {
    metrics_ = std::move(served).value();
  } else {
    log(LogLevel::kWarning, "{}: no metrics (RUEDA_METRICS_PORT): {}", plan_.own_name(), served.status().sentence());
  }
}

/// Starts the timeline that RUEDA_TIMELINE names; DYNAMIC waits for `start_timeline`. A file that cannot be made costs
/// the timeline and not the job.
void Engine::begin_timeline() {
  const Settings& settings = plan_.settings;
  if (settings.timeline.empty() || settings.timeline == "DYNAMIC") return;
  const Status begun = timeline_.start(settings.timeline, settings.timeline_mark_cycles);
  if (!begun.ok()) log(LogLevel::kWarning, "{}: RUEDA_TIMELINE: {}", plan_.own_name(), begun.sentence());
}

/// Not on the coordinator thread: `dump` waits for the program's answer.
void Engine::dump_for_signal() {
  warn_if_refused(task_thread_.post([this] {
    const RankDump taken = dump();
    if (!plan_.settings.dump_file.empty()) return write_to_dump_file(taken);
    for (const std::string& line : dump_lines(taken)) log(LogLevel::kWarning, "{}", line);
  }));
}

void Engine::warn_if_refused(const Status& posted) const {
  if (!posted.ok()) log(LogLevel::kWarning, "{}: no flight record: {}", plan_.own_name(), posted.sentence());
}

void Engine::write_to_dump_file(const RankDump& taken) const {
  const std::string& file = plan_.settings.dump_file;
  const Status written = write_dump(taken, file);
  log(LogLevel::kWarning, "{}: {}", plan_.own_name(),
      written.ok() ? "the flight record is in " + dump_path(file, plan_.rank) : written.sentence());
}

/// What can be had without waiting: any thread, also after the epoch has ended.
RankDump Engine::record() const {
  RankDump dump;  // plain values: it is written to a file or sent, whatever happens to the engine meanwhile
  const Endpoint& self = plan_.ranks[static_cast<size_t>(plan_.rank)];
  dump.job = plan_.job;
  dump.epoch = plan_.epoch;
  dump.rank = plan_.rank;
  dump.size = plan_.size;
  dump.plan = plan_.elastic.number;
  dump.workers = plan_.elastic.workers;
  dump.host = self.host;
  dump.pid = ::getpid();
  dump.status = abort_.raised() ? abort_.why().sentence() : "ok";
  dump.taken = unix_now();
  dump.sets = sets_.list();
  dump.operations =
      dumped(recorder_.flight().records(), [this](uint8_t number) { return executor_->algorithm_name(number); });
  return dump;
}

/// The program is asked first: the record is then as young as the answer.
RankDump Engine::dump() {
  std::string activity = activity_.ask();
  RankDump dump = record();
  dump.activity = std::move(activity);
  return dump;
}

/// The flight record goes where the user said; if the user said nothing, what hung goes to the log.
void Engine::record_error() {
  const RankDump last = record();  // without the program's word: it may hang in the very operation that failed
  if (plan_.settings.dump_file.empty()) {
    log(LogLevel::kWarning, "{}", last_words(last));
    return;
  }
  write_to_dump_file(last);
}

/// The record is cut to what the launcher's store takes as one value.
void Engine::dump_for_launcher(DumpSource& source, int64_t number) {
  warn_if_refused(task_thread_.post([this, &source, number] {
    const Status given = source.give(number, to_json_within(dump(), kMaxValueBytes));
    if (given.ok()) return;
    log(LogLevel::kInfo, "{}: the flight record could not be handed over: {}", plan_.own_name(), given.sentence());
  }));
}

}  // namespace rueda::core
