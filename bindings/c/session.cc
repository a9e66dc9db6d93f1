// The composing file: settings, identity, store, epoch, data plane and engine become one session. The order is that of
// what can be refused soonest: settings and plug-ins first, since they need no other rank, then the meeting, then the
// epoch, then the engine.
#include "bindings/c/session.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <unistd.h>

#include <limits>

#include "bindings/c/callback_store.h"
#include "bindings/c/check_settings.h"
#include "bindings/c/copy_in.h"
#include "bindings/c/deadline_in.h"
#include "bindings/c/elastic_session.h"
#include "bindings/c/launcher_link.h"
#include "bindings/c/launcher_notes.h"
#include "bindings/c/mpi_job.h"
#include "bindings/c/plugins.h"
#include "bindings/c/start_engine.h"
#include "bindings/c/static_sets.h"
#include "runtime/base/build_id.h"
#include "runtime/base/fork_closed.h"
#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/base/unread_variables.h"
#include "runtime/engine/core_claim.h"
#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/open_store.h"
#include "runtime/store/fabric_store.h"
#include "runtime/store/store_client.h"

namespace rueda::core {
namespace {

constexpr size_t kLeastKeyBytes = 16;
constexpr std::chrono::seconds kShutdownLimit{5};

std::atomic<uint64_t>& generation() {
  static std::atomic<uint64_t> value{0};
  return value;
}

Result<IdentityOptions> identity_options(const rueda_init_options& options) {
  IdentityOptions identity;
  if (options.has_rank != 0) {
    identity.rank = options.rank;
    identity.size = options.size;
  }
  if (options.host_name != nullptr) identity.host = options.host_name;
  if (options.job_key == nullptr) return identity;
  if (options.job_key_bytes < kLeastKeyBytes) {
    return Status(Code::kInvalidArgument, "job_key_bytes is " + std::to_string(options.job_key_bytes) +
                                              "; the minimum is " + std::to_string(kLeastKeyBytes));
  }
  ::SHA256(static_cast<const unsigned char*>(options.job_key), options.job_key_bytes, identity.key.bytes.data());
  identity.key.present = true;
  return identity;
}

struct Meeting {
  std::shared_ptr<Store> store;
  LauncherLink launcher;
  FabricShare fabric;
};

Result<Meeting> meet_by_mpi(const rueda_init_options& options, Identity& identity, const Settings& settings,
                            FabricSource& source, const Environment& environment, Deadline deadline) {
  auto fabric = join_mpi(options, settings, source, environment, identity, deadline);
  if (!fabric.ok()) return fabric.status();
  Meeting meeting;
  meeting.fabric = {fabric.value(), settings.controller == "mpi", settings.cpu_operations == "mpi"};
  if (identity.size > 1) meeting.store = std::make_shared<FabricStore>(std::move(fabric).value(), deadline);
  return meeting;
}

Result<Meeting> meet(const rueda_init_options& options, Identity& identity, const Settings& settings,
                     const Environment& environment, Deadline deadline) {
  Meeting meeting;
  if (options.store != nullptr) {
    Result<std::unique_ptr<CallbackStore>> store = CallbackStore::make(options.store);
    if (!store.ok()) return store.status();
    meeting.store = std::move(store).value();
    RUEDA_RETURN_IF_ERROR(provide_key_beside_store(identity, settings, environment));
    return meeting;
  }
  const Result<StoreChoice> choice = choose_store(identity, environment);
  if (!choice.ok()) return choice.status();
  RUEDA_RETURN_IF_ERROR(provide_key(identity, choice.value(), settings, environment));
  Result<std::shared_ptr<Store>> store = open_store(choice.value(), identity, deadline);
  if (!store.ok()) return store.status();
  meeting.store = std::move(store).value();
  if (choice.value().kind != StoreKind::kLauncher) return meeting;
  const Result<StoreLocation> where = locate_store(choice.value(), identity);
  if (!where.ok()) return where.status();
  Result<LauncherLink> launcher = link_to_launcher(where.value(), identity.rank, deadline);
  if (!launcher.ok()) return launcher.status();
  meeting.launcher = std::move(launcher).value();
  return meeting;
}

Result<Deadline> init_deadline(const rueda_init_options& options, const Settings& settings) {
  if (!(options.timeout_seconds >= 0)) {
    return Status(Code::kInvalidArgument,
                  "timeout_seconds is " + std::to_string(options.timeout_seconds) +
                      "; it must be 0 (RUEDA_INIT_TIMEOUT_SECONDS) or more; infinity is allowed");
  }
  if (options.timeout_seconds > 0) return deadline_in(options.timeout_seconds);
  const double seconds = settings.init_timeout.count();
  return deadline_in(seconds > 0 ? seconds : std::numeric_limits<double>::infinity());
}

void warn_of(const std::string& sentence) {
  if (!sentence.empty()) log(LogLevel::kWarning, "{}", sentence);
}

Result<std::unique_ptr<rueda_session>> start_session(const Identity& identity, Meeting meeting,
                                                     const Settings& settings, const Plugins& plugins,
                                                     const std::vector<StaticSet>& sets, Deadline deadline) {
  const FormOptions form{
      .build = build_id() + plugins.suffix, .fabric = meeting.fabric, .process_sets = in_words(sets)};
  Result<Formation> formation = form_epoch(identity, meeting.store.get(), settings, deadline, form);
  if (!formation.ok()) return formation.status();
  if (identity.size > 1) warn_of(confined_sentence(identity.rank));
  auto session = std::make_unique<rueda_session>();
  session->devices = plugins.devices;
  session->process = process_generation();
  const bool launched = meeting.launcher.verdicts != nullptr;
  auto engine = start_engine(std::move(formation).value(), std::move(meeting.launcher), plugins, sets);
  // hvdrun waits for the end of each epoch that a rank has joined.
  if (!engine.ok() && launched) note_end(*meeting.store, identity.job, identity.rank, engine.status());
  if (!engine.ok()) return engine.status();
  MutexLock lock(session->mutex);
  session->job = identity.job;
  session->engine = std::move(engine).value();
  if (launched) session->store = std::move(meeting.store);
  return session;
}

/// The rank of this process as far as its environment says it, and the plug-ins of the job.
struct Whereabouts {
  Identity identity;
  Plugins plugins;
  std::string without_mpi;  ///< why MPI cannot connect the ranks although it should
};

Result<Whereabouts> find_place(const rueda_init_options& options, const Settings& settings,
                               const Environment& environment) {
  Result<IdentityOptions> given = identity_options(options);
  if (!given.ok()) return given.status();
  given.value().mpi_says = asks_for_mpi(options, settings);
  Result<Identity> identity = read_identity(given.value(), environment);
  if (!identity.ok()) return identity.status();
  Result<Plugins> plugins = load_plugins(settings);
  if (!plugins.ok()) return plugins.status();
  const bool asked = given.value().mpi_says;
  std::string without_mpi;
  if (asked || needs_mpi(options, identity.value(), environment)) {
    const Status loaded = load_mpi_plugin(settings, plugins.value());
    if (!loaded.ok() && asked) return loaded;
    if (!loaded.ok()) log(LogLevel::kInfo, "init: MPI cannot connect the ranks: {}", loaded.sentence());
    without_mpi = loaded.sentence();
  }
  return Whereabouts{std::move(identity).value(), std::move(plugins).value(), without_mpi};
}

Status check_session(const rueda_session* session) {
  if (session == nullptr) return {Code::kNotInitialized, "the session is NULL; call rueda_init first"};
  if (session->process == process_generation()) return {};
  return {Code::kNotInitialized,
          fmt::format("this process (pid {}) was forked after rueda_init; call rueda_init in it", ::getpid())};
}

Status was_shut_down() { return {Code::kNotInitialized, "the session was shut down"}; }

}  // namespace

uint64_t process_generation() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, [] {
    generation().fetch_add(1);
    close_inherited();
  });
  static_cast<void>(registered);
  return generation().load();
}

Result<std::shared_ptr<Engine>> engine_of(const rueda_session* session) {
  RUEDA_RETURN_IF_ERROR(check_session(session));
  auto* shell = const_cast<rueda_session*>(session);
  MutexLock lock(shell->mutex);
  if (shell->engine == nullptr) return was_shut_down();
  return shell->engine;
}

/// Takes the mutex once, because every operation passes here.
Result<std::shared_ptr<Engine>> working_engine_of(const rueda_session* session) {
  RUEDA_RETURN_IF_ERROR(check_session(session));
  auto* shell = const_cast<rueda_session*>(session);
  MutexLock lock(shell->mutex);
  if (shell->engine == nullptr) return was_shut_down();
  if (shell->forecast) return shell->engine->status();
  return shell->engine;
}

std::optional<EpochPlan> forecast_of(const rueda_session& session) {
  auto& shell = const_cast<rueda_session&>(session);
  MutexLock lock(shell.mutex);
  return shell.forecast;
}

Result<std::unique_ptr<rueda_session>> open_session(const rueda_init_options& options) {
  const Environment environment = process_environment();
  const Result<Settings> settings = read_settings(environment);
  if (!settings.ok()) return settings.status();
  set_log_level(static_cast<LogLevel>(settings.value().log_level), settings.value().log_hide_time);
  report_unread(environment);
  RUEDA_RETURN_IF_ERROR(check_settings(settings.value(), environment));
  const Result<Deadline> deadline = init_deadline(options, settings.value());
  if (!deadline.ok()) return deadline.status();
  Result<Whereabouts> place = find_place(options, settings.value(), environment);
  if (!place.ok()) return place.status();
  auto& [identity, plugins, without_mpi] = place.value();
  RUEDA_RETURN_IF_ERROR(check_rows(settings.value(), plugins));
  const Result<std::optional<WorkerStart>> worker = elastic_worker(environment);
  if (!worker.ok()) return worker.status();
  // A program may bring ranks together by itself beside the job that hvdrun runs.
  if (worker.value() && options.store == nullptr && options.has_rank == 0)
    return open_elastic_session(options, *worker.value(),
                                {std::move(identity), settings.value(), std::move(plugins), {}}, environment,
                                deadline.value());
  // Before any other rank is met, if the size is known by then.
  if (plugins.fabric == nullptr) RUEDA_RETURN_IF_ERROR(static_sets(options, identity.size).status());
  Result<Meeting> meeting = Status();
  try {
    meeting = plugins.fabric == nullptr
                  ? meet(options, identity, settings.value(), environment, deadline.value())
                  : meet_by_mpi(options, identity, settings.value(), *plugins.fabric, environment, deadline.value());
  } catch (const std::exception& error) {  // of a library's, for lack of descriptors or memory
    meeting = Status(Code::kSystem, fmt::format("init: rank {} cannot meet the others: {}", identity.rank,
                                                failure_of(error).sentence()));
  }
  if (!meeting.ok() && meeting.status().code() == Code::kInvalidArgument && !without_mpi.empty()) {
    return Status(Code::kInvalidArgument, meeting.status().sentence() + "; nor can MPI connect them: " + without_mpi);
  }
  if (!meeting.ok()) return meeting.status();
  const Result<std::vector<StaticSet>> sets = static_sets(options, identity.size);
  if (!sets.ok()) return sets.status();
  return start_session(identity, std::move(meeting).value(), settings.value(), plugins, sets.value(), deadline.value());
}

Status close_session(rueda_session& session) {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Store> held;
  std::shared_ptr<ElasticJob> elastic;
  std::string job;
  bool left = false;
  {
    MutexLock lock(session.mutex);
    if (session.resetting) {
      return {Code::kInvalidArgument, "another thread is in rueda_reset of this session: shut it down afterwards"};
    }
    job = session.job;  // first: it takes memory, and from here on this call has to shut the engine down
    engine = std::move(session.engine);
    held = std::move(session.store);
    elastic = std::move(session.elastic);
    left = session.plan_left;
  }
  if (engine == nullptr) return {};
  Store* const store = left ? nullptr : elastic != nullptr ? &elastic->store() : held.get();
  const Status end = engine->status();
  const int rank = engine->plan().rank;
  try {
    if (store != nullptr && ended_well(end)) note_leaving(*store, job, rank);
  } catch (const std::exception& error) {  // no reason to stay
    log(LogLevel::kWarning, "rank {}: the launcher was not told that it leaves: {}", rank, error.what());
  }
  engine->shutdown(Deadline::after(kShutdownLimit));
  session.completions->close();
  if (store != nullptr) note_end(*store, job, rank, end);
  return {};
}

}  // namespace rueda::core
