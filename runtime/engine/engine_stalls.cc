// How ranks find out what hangs. Two things can: an operation that some ranks have not submitted, which rank 0 sees in
// agreement, and a batch that runs for long, which only its members see and tell rank 0 (`look_for_late_batch`). Rank 0
// judges both together, asks the ranks that are missing or running what they do, and writes one report when they have
// answered or had their time (`look_for_stalls`). No step waits: each look goes on from what has come since the last.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/printable.h"
#include "runtime/diagnosis/dump_file.h"
#include "runtime/engine/engine.h"

namespace rueda::core {

/// Rank 0 asks by its own ids of sets. A set that is unknown here has been removed: no batch of it comes any more, but
/// if this rank had joined, its last one may still run.
BatchProgress Engine::progress_of(const BatchName& batch) {
  const std::shared_ptr<TeamState> team = teams_.find(batch.set);
  if (team != nullptr && team->started.load() <= batch.number) return {BatchStage::kNotStarted};
  if (!lanes_.runs(batch.set, batch.number)) return {BatchStage::kOver};
  if (lanes_.finisher().has(batch.set, batch.number)) return {BatchStage::kRunning, Mesh::kDevice};
  return {BatchStage::kRunning, lanes_.awaited(batch.set, lanes_.use_of(batch.set, batch.number))};
}

/// The progress is read now, by the holder of the baton. The text takes the program's answer, which may take a while:
/// it is made on the task thread, and the next turn sends both.
void Engine::asked(const Ask& ask) {
  Answer answer{ask.number, {}};
  for (const BatchName& batch : ask.batches) answer.batches.push_back(progress_of(batch));
  const auto give = [this](Answer given) {
    answers_.push(std::move(given));
    if (baton_.nobody_looks()) ring_coordinator();
  };
  const Status posted = task_thread_.post([this, give, answer]() mutable {
    answer.text = now_doing(dump());
    give(std::move(answer));
  });
  if (posted.ok()) return;
  answer.text = posted.sentence();
  give(std::move(answer));
}

void Engine::answered(int rank, const Answer& answer) { inquiry_.answer(rank, answer); }

void Engine::heard_of_late(const LateBatch& batch) { late_batches_.note(batch, SteadyClock::now()); }

/// Tells rank 0 of the batch that has run here longest, if that is long: rank 0 may be no member of its set, or be
/// through with its own part. A look costs one pass over the flight record, so it is left out when nothing is in
/// flight.
void Engine::look_for_late_batch(SteadyClock::time_point now) {
  const Settings& settings = plan_.settings;
  if (settings.stall_check_disable || settings.stall_check_time.count() <= 0 || abort_.raised()) return;
  // Nothing in flight, nothing late: the usual case of a program that computes.
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

/// Rank 0 only. Returns the lines of a report that is complete, else none. Sets `end` with them if the report is about
/// a stall that has passed RUEDA_STALL_SHUTDOWN_TIME_SECONDS.
std::vector<std::string> Engine::look_for_stalls(SteadyClock::time_point now, Status& end) {
  const Settings& settings = plan_.settings;
  if (plan_.rank != 0 || settings.stall_check_disable || settings.stall_check_time.count() <= 0) return {};
  // One report at a time. While it waits for answers, the ages of stalls go on in agreement.
  if (!inquiry_.under_way()) {
    std::vector<Stalled> stalled = turn_->stalled(now);
    std::vector<Stalled> late = late_batches_.stalled(now);
    std::move(late.begin(), late.end(), std::back_inserter(stalled));
    StallVerdict verdict = stall_judge_.look(std::move(stalled));
    if (verdict.reports.empty()) return {};
    const std::vector<int> asked = inquiry_.begin(std::move(verdict), now);
    turn_->ask(asked, inquiry_.ask());
  }
  std::vector<std::string> full_names;
  for (int rank = 0; rank < plan_.size; ++rank) full_names.push_back(plan_.name_of(rank));
  std::optional<StallText> text = inquiry_.due(now, full_names, plan_.names());
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
