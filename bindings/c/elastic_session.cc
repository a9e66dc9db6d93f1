// The session of an elastic job. A reset replaces its engine and keeps everything else:
//
//   mark it as being reset ─▶ end the old engine ─▶ tell hvdrun ─▶ join the next plan ─▶ hand over names ─▶ swap
//
// Other calls find the old engine, which takes no operations any more, until the swap. The old engine ends before
// hvdrun hears of it: a plan that was not over ends by goodbyes in their order, so that what all members have submitted
// is done. hvdrun tells the others that it is over in order, and they let such operations end, too.
#include "bindings/c/elastic_session.h"

#include <algorithm>

#include "bindings/c/deadline_in.h"
#include "bindings/c/lone_engine.h"
#include "runtime/base/shortage.h"

namespace rueda::core {
namespace {

/// How long the end of the old engine takes at most: as a shutdown.
constexpr std::chrono::seconds kOldEngineLimit{5};
/// Sets are compared with the job's size only when the first plan is known.
constexpr int kLargestSize = static_cast<int>(kMostPlannedWorkers);

Status adopt(rueda_session& session, ElasticJob::Joined joined) {
  MutexLock lock(session.mutex);
  if (session.engine != nullptr) joined.engine->take_names(*session.engine);
  joined.engine->set_activity(session.activity);
  session.engine = std::move(joined.engine);
  session.plan = std::move(joined.plan);
  session.job = std::move(joined.job);
  session.plan_left = false;
  session.forecast.reset();
  return {};
}

/// Lets the session stand where this worker would be.
void wait_outside(rueda_session& session, ElasticJob::Joined outside, int64_t worker) {
  MutexLock lock(session.mutex);
  session.engine = std::move(outside.engine);
  session.forecast = forecast_of(outside.plan, worker);
  session.plan = std::move(outside.plan);
  session.job = std::move(outside.job);
  session.plan_left = true;
}

/// Returns what the reset needs, and marks the session as being reset.
struct Reset {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<ElasticJob> elastic;
};
Result<Reset> begin_reset(rueda_session& session) {
  MutexLock lock(session.mutex);
  if (session.engine == nullptr) return Status(Code::kNotInitialized, "the session was shut down");
  if (session.elastic == nullptr) {
    return Status(Code::kUnsupported, "rueda_reset: this job is not elastic; start it with hvdrun --min-np N");
  }
  if (session.resetting) {
    return Status(Code::kInvalidArgument, "another thread is in rueda_reset of this session: wait for it");
  }
  session.resetting = true;
  session.plan_left = true;
  return Reset{session.engine, session.elastic};
}

Status reset_begun(rueda_session& session, const Reset& reset, Deadline deadline) {
  reset.engine->shutdown(Deadline::after(kOldEngineLimit), OtherCalls::kMayRun);
  reset.elastic->leave(reset.engine->left_in_order() ? Ending::kInOrder : Ending::kAtOnce);
  auto joined = reset.elastic->join(deadline);
  if (!joined.ok()) return joined.status();
  const std::shared_ptr<Engine> engine = joined.value().engine;
  Status adopted = adopt(session, std::move(joined).value());
  if (!adopted.ok()) engine->shutdown(Deadline::after(kOldEngineLimit));
  return adopted;
}

}  // namespace

Result<std::unique_ptr<rueda_session>> open_elastic_session(const rueda_init_options& options,
                                                            const WorkerStart& worker, ElasticJob::Parts parts,
                                                            const Environment& environment, Deadline connected_by) {
  if (parts.plugins.fabric != nullptr) {
    return Status(Code::kUnsupported,
                  "an elastic job cannot run over MPI, whose ranks end together; unset RUEDA_CONTROLLER and "
                  "RUEDA_CPU_OPERATIONS");
  }
  auto sets = static_sets(options, kLargestSize);
  if (!sets.ok()) return sets.status();
  parts.sets = std::move(sets).value();
  parts.slot = worker.slot;
  // The store is hvdrun's also if the job has begun with one worker.
  Identity identity = parts.identity;
  identity.size = std::max(identity.size, 2);
  const auto choice = choose_store(identity, environment);
  if (!choice.ok()) return choice.status();
  RUEDA_RETURN_IF_ERROR(provide_key(parts.identity, choice.value(), parts.settings, environment));
  auto session = std::make_unique<rueda_session>();
  session->devices = parts.plugins.devices;
  session->process = process_generation();
  auto job = ElasticJob::meet(std::move(parts), worker, choice.value(), connected_by);
  if (!job.ok()) return job.status();
  const std::shared_ptr<ElasticJob> elastic = std::move(job).value();
  {
    MutexLock lock(session->mutex);
    session->elastic = elastic;
  }
  if (options.wait_outside != 0 && worker.may_wait) {
    auto outside = elastic->wait_outside(connected_by);
    if (!outside.ok()) return outside.status();
    if (outside.value()) {
      wait_outside(*session, std::move(*outside.value()), worker.worker);
      return session;
    }
  }
  // A worker that comes later is in no plan until hvdrun hears that it is ready; to one of the first plan this is
  // nothing new.
  elastic->ask_for_first();
  auto joined = elastic->join(options.timeout_seconds > 0 ? deadline_in(options.timeout_seconds) : Deadline::never());
  if (!joined.ok()) return joined.status();
  RUEDA_RETURN_IF_ERROR(adopt(*session, std::move(joined).value()));
  return session;
}

Status reset_session(rueda_session& session, Deadline deadline) {
  const auto reset = begin_reset(session);
  if (!reset.ok()) return reset.status();
  Status result;
  try {
    result = reset_begun(session, reset.value(), deadline);
  } catch (const std::exception& error) {  // of a library's, for lack of descriptors or memory
    result = failure_of(error);
  }
  MutexLock lock(session.mutex);
  session.resetting = false;
  return result;
}

}  // namespace rueda::core
