// The composing file: settings, identity, store, epoch, data plane and engine become one session. The order is that of
// what can be refused soonest: settings and plug-ins first, since they need no other rank, then the meeting, then the
// epoch, then the engine.
#include "bindings/c/session.h"

#include <fmt/format.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "bindings/c/callback_store.h"
#include "bindings/c/check_settings.h"
#include "bindings/c/copy_in.h"
#include "bindings/c/deadline_in.h"
#include "bindings/c/launcher_link.h"
#include "bindings/c/mpi_job.h"
#include "bindings/c/plugins.h"
#include "ops/data_plane.h"
#include "ops/select.h"
#include "runtime/base/build_id.h"
#include "runtime/base/fork_closed.h"
#include "runtime/base/log.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/base/shortage.h"
#include "runtime/base/unread_variables.h"
#include "runtime/engine/core_claim.h"
#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/open_store.h"
#include "runtime/store/fabric_store.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_keys.h"

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

Result<std::unique_ptr<DataPlane>> make_data_plane(const Settings& settings, const Plugins& plugins) {
  auto plane = std::make_unique<DataPlane>(settings);
  for (const std::span<const Algorithm> rows : plugins.rows) RUEDA_RETURN_IF_ERROR(plane->add_algorithms(rows));
  return plane;
}

Status check_rows(const Settings& settings, const Plugins& plugins) {
  const Result<std::unique_ptr<DataPlane>> plane = make_data_plane(settings, plugins);
  return plane.ok() ? check_forced_algorithms(plane.value()->table(), settings) : plane.status();
}

/// Text that is equal for equal sets, whatever the order of their ranks: "ranks 0-2; ranks 1-2".
std::string in_words(std::vector<std::vector<int>> sets) {
  constexpr size_t kMostShown = 512;
  std::string words;
  for (std::vector<int>& ranks : sets) {
    std::sort(ranks.begin(), ranks.end());
    words += (words.empty() ? "" : "; ") + rank_ranges(ranks, {});
  }
  if (words.empty()) return "none";
  if (words.size() <= kMostShown) return words;
  // All ranks run the same build, so their hashes agree.
  return fmt::format("{}... ({} sets, {:016x})", words.substr(0, kMostShown), sets.size(),
                     std::hash<std::string>()(words));
}

/// A set of rueda_init is like any other set; its name holds its index.
Status add_static_sets(Engine& engine, const std::vector<std::vector<int>>& sets) {
  for (size_t i = 0; i < sets.size(); ++i) {
    const Result<SetId> added =
        engine.add_process_set(sets[i], std::string(kOwnNames) + "init." + std::to_string(i + 1));
    if (!added.ok()) return added.status();
  }
  return {};
}

Result<std::vector<std::vector<int>>> static_sets(const rueda_init_options& options, int size) {
  std::vector<std::vector<int>> sets;
  ProcessSets checked(0, size);
  if (options.process_set_count != 0 && options.process_sets == nullptr) {
    return Status(Code::kInvalidArgument, "process_sets is NULL");
  }
  const auto* at = reinterpret_cast<const std::byte*>(options.process_sets);
  for (size_t i = 0; i < options.process_set_count; ++i) {
    const auto* given = reinterpret_cast<const rueda_process_set*>(at);
    const Result<rueda_process_set> set = copy_in(given, "rueda_process_set");
    if (!set.ok()) return set.status();
    const int32_t* ranks = set.value().ranks;
    if (ranks == nullptr)
      return Status(Code::kInvalidArgument, "process_sets[" + std::to_string(i) + "].ranks is NULL");
    sets.emplace_back(ranks, ranks + set.value().count);
    RUEDA_RETURN_IF_ERROR(checked.add(sets.back(), {}).status());
    at += given->struct_size;  // the caller's header may know a longer or shorter struct
  }
  return sets;
}

void warn_of(const std::string& sentence) {
  if (!sentence.empty()) log(LogLevel::kWarning, "{}", sentence);
}

bool ended_well(const Status& end) { return end.ok() || end.code() == Code::kShutDown; }

void log_unless_noted(const Status& noted, int rank) {
  if (!noted.ok()) log(LogLevel::kInfo, "rank {}: cannot record its goodbye: {}", rank, noted.sentence());
}

/// Tells hvdrun that this rank is leaving. This comes before the goodbye: other ranks that still need this one then
/// fail, and hvdrun must not take that for the first failure.
void note_leaving(Store& store, const std::string& job, int rank) {
  log_unless_noted(store.add(leaving_key(job, rank), 1).status(), rank);
}

/// Tells hvdrun that this rank has shut down, or why its epoch had failed before.
void note_end(Store& store, const std::string& job, int rank, const Status& end) {
  Status noted;
  if (ended_well(end)) {
    noted = store.add(goodbyes_key(job, rank), 1).status();
  } else {
    const Result<int64_t> wishes = store.add(wishes_key(job, rank), 0);
    noted = wishes.ok() ? store.set(failed_key(job, rank, wishes.value()), end.sentence()) : wishes.status();
  }
  log_unless_noted(noted, rank);
}

/// Starts the engine of a formed epoch and adds the sets that the caller gave.
Result<std::shared_ptr<Engine>> start_engine(Formation formation, LauncherLink launcher, const Plugins& plugins,
                                             const std::vector<std::vector<int>>& sets) {
  Result<std::unique_ptr<DataPlane>> executor = make_data_plane(formation.plan.settings, plugins);
  if (!executor.ok()) return executor.status();
  auto engine = Engine::start(std::move(formation), std::move(executor).value(), std::move(launcher.verdicts),
                              std::move(launcher.dumps));
  if (!engine.ok()) return engine;
  RUEDA_RETURN_IF_ERROR(add_static_sets(*engine.value(), sets));
  return engine;
}

Result<std::unique_ptr<rueda_session>> start_session(const Identity& identity, Meeting meeting,
                                                     const Settings& settings, const Plugins& plugins,
                                                     const std::vector<std::vector<int>>& sets, Deadline deadline) {
  const FormOptions form{
      .build = build_id() + plugins.suffix, .fabric = meeting.fabric, .process_sets = in_words(sets)};
  Result<Formation> formation = form_epoch(identity, meeting.store.get(), settings, deadline, form);
  if (!formation.ok()) return formation.status();
  if (identity.size > 1) warn_of(confined_sentence(identity.rank));
  auto session = std::make_unique<rueda_session>();
  session->devices = plugins.devices;
  session->job = identity.job;
  session->process = process_generation();
  const bool launched = meeting.launcher.verdicts != nullptr;
  auto engine = start_engine(std::move(formation).value(), std::move(meeting.launcher), plugins, sets);
  // hvdrun waits for the end of each epoch that a rank has joined.
  if (!engine.ok() && launched) note_end(*meeting.store, identity.job, identity.rank, engine.status());
  if (!engine.ok()) return engine.status();
  MutexLock lock(session->mutex);
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
  if (session == nullptr) return Status(Code::kNotInitialized, "the session is NULL; call rueda_init first");
  if (session->process != process_generation()) {
    return Status(Code::kNotInitialized, "this process (pid " + std::to_string(::getpid()) +
                                             ") was forked after rueda_init; call rueda_init in it");
  }
  auto* shell = const_cast<rueda_session*>(session);
  MutexLock lock(shell->mutex);
  if (shell->engine == nullptr) return Status(Code::kNotInitialized, "the session was shut down");
  return shell->engine;
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
  // Before any other rank is met, if the size is known by then.
  if (plugins.fabric == nullptr) RUEDA_RETURN_IF_ERROR(static_sets(options, identity.size).status());
  Result<Meeting> meeting = Status();
  try {
    meeting = plugins.fabric == nullptr
                  ? meet(options, identity, settings.value(), environment, deadline.value())
                  : meet_by_mpi(options, identity, settings.value(), *plugins.fabric, environment, deadline.value());
  } catch (const std::exception& error) {  // of a library's, for want of descriptors or memory
    meeting = Status(Code::kSystem, fmt::format("init: rank {} cannot meet the others: {}", identity.rank,
                                                failure_of(error).sentence()));
  }
  if (!meeting.ok() && meeting.status().code() == Code::kInvalidArgument && !without_mpi.empty()) {
    return Status(Code::kInvalidArgument, meeting.status().sentence() + "; nor can MPI connect them: " + without_mpi);
  }
  if (!meeting.ok()) return meeting.status();
  const Result<std::vector<std::vector<int>>> sets = static_sets(options, identity.size);
  if (!sets.ok()) return sets.status();
  return start_session(identity, std::move(meeting).value(), settings.value(), plugins, sets.value(), deadline.value());
}

Status close_session(rueda_session& session) {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Store> store;
  {
    MutexLock lock(session.mutex);
    engine = std::move(session.engine);
    store = std::move(session.store);
  }
  if (engine == nullptr) return {};
  const Status end = engine->status();
  const int rank = engine->plan().rank;
  if (store != nullptr && ended_well(end)) note_leaving(*store, session.job, rank);
  engine->shutdown(Deadline::after(kShutdownLimit));
  session.completions->close();
  if (store != nullptr) note_end(*store, session.job, rank, end);
  return {};
}

}  // namespace rueda::core
