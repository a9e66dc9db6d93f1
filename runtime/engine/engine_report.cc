// What the engine tells about itself: figures, the flight record, and the record of an error.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/printable.h"
#include "runtime/diagnosis/dump_file.h"
#include "runtime/diagnosis/prometheus.h"
#include "runtime/engine/engine.h"
#include "runtime/store/store.h"

namespace rueda::core {
namespace {

using Json = nlohmann::ordered_json;

double ratio(double part, uint64_t whole) { return whole == 0 ? 0.0 : part / static_cast<double>(whole); }

Json kinds_of(const Counters& counters) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < counters.kinds.size(); ++kind) {
    const uint64_t tensors = counters.kinds[kind].tensors.value();
    if (tensors == 0) continue;
    kinds[name_of(static_cast<OpKind>(kind))] = {{"tensors", tensors}, {"bytes", counters.kinds[kind].bytes.value()}};
  }
  return kinds;
}

Json rows_of(const Counters& counters, const Executor& executor) {
  Json rows = Json::array();
  for (size_t algorithm = 0; algorithm < counters.algorithms.size(); ++algorithm) {
    const Counters::Algorithm& counted = counters.algorithms[algorithm];
    if (counted.batches.value() == 0) continue;
    rows.push_back({{"row", algorithm},
                    {"name", executor.algorithm_name(static_cast<uint8_t>(algorithm))},
                    {"batches", counted.batches.value()},
                    {"bytes", counted.bytes.value()},
                    {"seconds", counted.time.seconds()}});
  }
  return rows;
}

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

std::string Engine::stats() {
  const Counters& counters = recorder_.counters();
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
      {"algorithms", rows_of(counters, *executor_)},
      {"memory_bytes", memory()},
  };
  return stats.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::map<std::string, uint64_t> Engine::memory() {
  return {{"shared_segment", segment_bytes_},
          {"flight_recorder", recorder_.flight().bytes()},
          {"outputs", output_bytes_.load()},
          {"timeline", timeline_.held()}};
}

void Engine::serve_metrics() {
  const Settings& settings = plan_.settings;
  if (settings.metrics_port == 0) return;
  const int port = settings.metrics_port + plan_.local_rank();
  const auto page = [this] {
    return prometheus_text(
        recorder_.counters(), plan_.rank, [this](uint8_t number) { return executor_->algorithm_name(number); },
        memory());
  };
  Result<std::unique_ptr<HttpPage>> served =
      HttpPage::start(settings.metrics_address, static_cast<uint16_t>(port), page);
  if (served.ok()) {
    metrics_ = std::move(served).value();
  } else {
    log(LogLevel::kWarning, "rank {}: no metrics (RUEDA_METRICS_PORT): {}", plan_.rank, served.status().sentence());
  }
}

/// That of RUEDA_TIMELINE; DYNAMIC waits for `start_timeline`.
void Engine::begin_timeline() {
  const Settings& settings = plan_.settings;
  if (settings.timeline.empty() || settings.timeline == "DYNAMIC") return;
  const Status begun = timeline_.start(settings.timeline, settings.timeline_mark_cycles);
  if (!begun.ok()) log(LogLevel::kWarning, "rank {}: RUEDA_TIMELINE: {}", plan_.rank, begun.sentence());
}

/// Only where the user named a signal: signals belong to programs.
void Engine::watch_signal() {
  const int signal = plan_.settings.dump_signal;
  if (signal == 0) return;
  Result<std::unique_ptr<DumpSignal>> watched = DumpSignal::watch(signal, formation_.doorbell.get());
  if (watched.ok()) {
    dump_signal_ = std::move(watched).value();
  } else {
    log(LogLevel::kWarning, "rank {}: RUEDA_DUMP_SIGNAL has no effect: {}", plan_.rank, watched.status().sentence());
  }
}

void Engine::dump_for_signal() {
  const RankDump taken = dump();
  if (plan_.settings.dump_file.empty()) {
    for (const std::string& line : dump_lines(taken)) log(LogLevel::kWarning, "{}", line);
    return;
  }
  const Status written = write_dump(taken, plan_.settings.dump_file);
  log(LogLevel::kWarning, "rank {}: {}", plan_.rank,
      written.ok() ? "the flight record is in " + dump_path(plan_.settings.dump_file, plan_.rank) : written.sentence());
}

RankDump Engine::record() const {
  RankDump dump;
  const Endpoint& self = plan_.ranks[static_cast<size_t>(plan_.rank)];
  dump.job = plan_.job;
  dump.epoch = plan_.epoch;
  dump.rank = plan_.rank;
  dump.size = plan_.size;
  dump.host = self.host;
  dump.pid = ::getpid();
  dump.status = abort_.raised() ? abort_.why().sentence() : "ok";
  dump.taken = unix_now();
  dump.sets = sets_.list();
  dump.operations =
      dumped(recorder_.flight().records(), [this](uint8_t number) { return executor_->algorithm_name(number); });
  return dump;
}

RankDump Engine::dump() {
  std::string activity = activity_.ask();
  RankDump dump = record();
  dump.activity = std::move(activity);
  return dump;
}

/// Once, after the epoch has ended with an error: the flight record goes where the user said, or what hung goes to the
/// log.
void Engine::record_error() {
  if (error_recorded_ || !abort_.raised() || abort_.why().code() == Code::kShutDown) return;
  error_recorded_ = true;
  const RankDump last = record();
  if (plan_.settings.dump_file.empty()) {
    log(LogLevel::kWarning, "{}", last_words(last));
    return;
  }
  const Status written = write_dump(last, plan_.settings.dump_file);
  log(LogLevel::kWarning, "rank {}: {}", plan_.rank,
      written.ok() ? "the flight record is in " + dump_path(plan_.settings.dump_file, plan_.rank) : written.sentence());
}

void Engine::give_dump(int64_t number) {
  const Status given = dumps_->give(number, to_json_within(dump(), kMaxValueBytes));
  if (!given.ok())
    log(LogLevel::kInfo, "rank {}: the flight record could not be handed over: {}", plan_.rank, given.sentence());
}

BatchProgress Engine::progress_of(const BatchName& batch) {
  const TeamState* team = teams_.find(batch.set);
  if (team == nullptr) return {BatchStage::kOver};  // removed here, after all that ran in it
  if (team->started.load() <= batch.number) return {BatchStage::kNotStarted};
  if (!lanes_.runs(batch.set, batch.number)) return {BatchStage::kOver};
  return {BatchStage::kRunning, lanes_.awaited(batch.set)};
}

void Engine::asked(const Ask& ask) {
  Answer answer{ask.number, {}};
  for (const BatchName& batch : ask.batches) answer.batches.push_back(progress_of(batch));
  worker_.post([this, answer]() mutable {
    answer.text = now_doing(dump());
    answers_.push(std::move(answer));
    if (baton_.nobody_looks()) ring_coordinator();
  });
}

void Engine::answered(int rank, const Answer& answer) { inquiry_.answer(rank, answer); }

void Engine::heard_of_late(const LateBatch& batch) { late_batches_.note(batch, SteadyClock::now()); }

/// Rank 0 hears of what has run here for long: it may be no member of the set, or be through with its own part.
void Engine::look_for_late_batch(SteadyClock::time_point now) {
  const Settings& settings = plan_.settings;
  if (settings.stall_check_disable || settings.stall_check_time.count() <= 0 || abort_.raised()) return;
  const Counters& counters = recorder_.counters();
  if (counters.submitted.value() <= counters.finished.value() + counters.failed.value()) return;
  const std::optional<FlightRecorder::Running> running = recorder_.flight().longest_running();
  if (!running) return;
  const OpRecord& first = running->first;
  const TeamState* team = teams_.find_number(first.set);
  const std::chrono::nanoseconds age = now - first.when[static_cast<size_t>(OpState::kStarted)];
  if (team == nullptr || !late_watch_.due(first.number, age)) return;
  std::string what = name_of(first.kind);
  if (first.name_bytes != 0) what += fmt::format(" \"{}\"", printable(first.name()));
  if (running->more != 0) what += fmt::format(" and {} more", running->more);
  what += fmt::format("{}, by {},", sets_.of_set(first.set), executor_->algorithm_name(first.algorithm));
  LateBatch late{team->id, first.batch, age, std::move(what), team->team.ranks};
  std::sort(late.ranks.begin(), late.ranks.end());
  turn_->tell_late(late);
}

/// The lines of a report that is complete; `end` is set with those of a stall whose limit has passed.
std::vector<std::string> Engine::look_for_stalls(SteadyClock::time_point now, Status& end) {
  const Settings& settings = plan_.settings;
  if (plan_.rank != 0 || settings.stall_check_disable || settings.stall_check_time.count() <= 0) return {};
  if (!inquiry_.under_way()) {
    std::vector<Stalled> stalled = turn_->stalled(now);
    std::vector<Stalled> late = late_batches_.stalled(now);
    std::move(late.begin(), late.end(), std::back_inserter(stalled));
    StallVerdict verdict = stall_judge_.look(std::move(stalled));
    if (verdict.reports.empty()) return {};
    const std::vector<int> asked = inquiry_.begin(std::move(verdict), now);
    turn_->ask(asked, inquiry_.ask());
  }
  std::vector<std::string> names;
  std::vector<std::string> hosts;
  for (int rank = 0; rank < plan_.size; ++rank) {
    names.push_back(who(plan_, rank));
    hosts.push_back(plan_.ranks[static_cast<size_t>(rank)].host);
  }
  std::optional<StallText> text = inquiry_.due(now, names, hosts);
  if (!text) return {};
  if (text->shut_down) {
    end = Status(Code::kTimeout,
                 fmt::format("RUEDA_STALL_SHUTDOWN_TIME_SECONDS ({} s) has passed: {}",
                             settings.stall_shutdown_time.count(), text->reason),
                 text->missing);
  }
  return std::move(text->lines);
}

}  // namespace rueda::core
