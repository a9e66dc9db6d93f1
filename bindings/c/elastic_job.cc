// A worker's way from plan to plan:
//
//   await a plan ─▶ take it ─▶ form its epoch as job JOB.N ─▶ start the engine ─▶ joined
//        ▲                          │                              │
//        └──────────────────────────┴── the plan is over ──────────┘
//
// The plan's end reaches every step: waits in the store end by the key JOB.N/death, all others by the cutoff. A step
// that fails for another reason may fail because a member has died and hvdrun has not said so yet. So the worker waits
// a moment for the end of the plan. If none comes and another rank is at fault, it asks for the next plan itself; if it
// is at fault itself, the call fails.
#include "bindings/c/elastic_job.h"

#include <fmt/format.h>

#include <charconv>

#include "bindings/c/lone_engine.h"
#include "bindings/c/start_engine.h"
#include "runtime/base/knob_values.h"
#include "runtime/base/log.h"
#include "runtime/engine/faults.h"
#include "runtime/rendezvous/forming_time.h"
#include "runtime/rendezvous/open_store.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

/// How long an engine that has come too late takes to end.
constexpr std::chrono::seconds kEndLimit{1};

Deadline forming_deadline(std::chrono::nanoseconds patience, Deadline deadline) {
  return patience.count() > 0 ? deadline.earlier(Deadline::after(patience)) : deadline;
}

bool is_new(const Plan& plan, int rank) {
  return plan.number > 1 && plan.workers[static_cast<size_t>(rank)].holds_state == 0;
}

/// "trace.json" of plan 3 is "trace.plan3.json": each plan has a file of its own.
std::string path_in(const std::string& path, uint64_t plan) {
  const size_t slash = path.rfind('/');
  const size_t name = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = path.rfind('.');
  const std::string mark = fmt::format(".plan{}", plan);
  if (dot == std::string::npos || dot <= name) return path + mark;
  return path.substr(0, dot) + mark + path.substr(dot);
}

}  // namespace

Result<std::optional<WorkerStart>> elastic_worker(const Environment& environment) {
  const auto elastic = environment("RUEDA_ELASTIC");
  const auto id = environment("RUEDA_WORKER_ID");
  if (elastic && *elastic != "0" && *elastic != "1") {
    return Status(Code::kInvalidArgument, "RUEDA_ELASTIC: \"" + *elastic + "\" is not allowed; allowed: 0, 1");
  }
  if (!elastic || *elastic == "0") return std::optional<WorkerStart>();
  WorkerStart start;
  int64_t& worker = start.worker = -1;
  const char* end = id ? id->data() + id->size() : nullptr;
  if (!id || std::from_chars(id->data(), end, worker).ptr != end || worker < 0) {
    return Status(Code::kInvalidArgument,
                  "RUEDA_WORKER_ID: \"" + id.value_or("") +
                      "\" is not allowed with RUEDA_ELASTIC=1; allowed: a whole number from 0 "
                      "on, which hvdrun gives; unset both if hvdrun did not start this process");
  }
  const auto admit = environment("RUEDA_ADMIT");
  if (admit && *admit != "ready" && *admit != "discovered") {
    return Status(Code::kInvalidArgument, "RUEDA_ADMIT: \"" + *admit + "\" is not allowed; allowed: ready, discovered");
  }
  start.may_wait = admit == "ready";
  const std::string slot = environment("RUEDA_LOCAL_RANK").value_or("0");
  const char* const slot_end = slot.data() + slot.size();
  if (std::from_chars(slot.data(), slot_end, start.slot).ptr != slot_end || start.slot < 0) {
    return Status(Code::kInvalidArgument,
                  "RUEDA_LOCAL_RANK: \"" + slot + "\" is not allowed; allowed: a whole number from 0 on");
  }
  const auto rejoin = environment("RUEDA_REJOIN_TIMEOUT");
  if (!rejoin) return std::optional<WorkerStart>(start);
  const auto seconds = parse_seconds(*rejoin);
  if (!seconds.ok()) return Status(Code::kInvalidArgument, "RUEDA_REJOIN_TIMEOUT: " + seconds.status().sentence());
  start.rejoin = seconds.value();
  return std::optional<WorkerStart>(start);
}

ElasticJob::ElasticJob(Parts parts, std::chrono::nanoseconds patience, std::unique_ptr<Store> store,
                       std::unique_ptr<SegmentReserve> reserve, std::unique_ptr<PlanFollower> members,
                       std::unique_ptr<WorkerDumps> dumps)
    : parts_(std::move(parts)),
      patience_(patience),
      store_(std::move(store)),
      reserve_(std::move(reserve)),
      members_(std::move(members)),
      dumps_(std::move(dumps)) {}

Result<std::unique_ptr<ElasticJob>> ElasticJob::meet(Parts parts, const WorkerStart& worker, const StoreChoice& choice,
                                                     Deadline deadline) {
  if (choice.kind != StoreKind::kLauncher) {
    return Status(Code::kInvalidArgument,
                  "RUEDA_ELASTIC is 1, but RUEDA_STORE is not launcher: only hvdrun --min-np runs elastic jobs");
  }
  const auto where = locate_store(choice, parts.identity);
  if (!where.ok()) return where.status();
  auto store = StoreClient::connect(where.value(), deadline);
  if (!store.ok()) return store.status();
  auto reserve = std::make_unique<SegmentReserve>();
  const auto on_notice = [reserve = reserve.get(), settings = parts.settings,
                          local_size = parts.identity.local_size](const MembershipNotice& notice) {
    if (notice.changes == 0) return reserve->drop();
    reserve->prepare(settings, local_size);
  };
  auto members = PlanFollower::start(where.value(), worker.worker, deadline, on_notice);
  if (!members.ok()) return members.status();
  auto dumps = WorkerDumps::start(where.value(), worker.worker, deadline);
  if (!dumps.ok()) return dumps.status();
  const auto patience = forming_time(parts.settings.init_timeout, worker.rejoin);
  return std::unique_ptr<ElasticJob>(new ElasticJob(std::move(parts), patience, std::move(store).value(),
                                                    std::move(reserve), std::move(members).value(),
                                                    std::move(dumps).value()));
}

Result<std::optional<ElasticJob::Joined>> ElasticJob::wait_outside(Deadline deadline) {
  const auto present = members_->present(deadline);
  if (!present.ok()) return present.status();
  if (present.value().rank_of(members_->worker()) >= 0) return std::optional<Joined>();
  auto engine = lone_engine(parts_.identity, members_->worker(), parts_.sets.size(), dumps_->source());
  if (!engine.ok()) return engine.status();
  const PlannedWorker self{members_->worker(), parts_.identity.host, parts_.slot, 0};
  reserve_->prepare(parts_.settings, parts_.identity.local_size);
  return std::optional<Joined>(Joined{present.value().with(self), parts_.identity.job, std::move(engine).value()});
}

Result<ElasticJob::Joined> ElasticJob::join(Deadline deadline) {
  for (;;) {
    const auto plan = members_->await_plan(last_, deadline);
    if (!plan.ok()) return plan.status();
    const auto cutoff = members_->take(plan.value().number);
    if (!cutoff.ok()) return cutoff.status();
    last_ = plan.value().number;
    auto engine = form(plan.value(), cutoff.value(), deadline);
    if (engine.ok() && !cutoff.value()->raised()) {
      // From here on the call returns with this plan or fails, even if the plan ends now: hvdrun may count on it.
      const Status told = tell_formed(plan.value());
      if (told.ok()) return Joined{plan.value(), planned_job(parts_.identity.job, last_), std::move(engine).value()};
      engine.value()->shutdown(Deadline::after(kEndLimit));
      return told;
    }
    if (engine.ok()) engine.value()->shutdown(Deadline::after(kEndLimit));
    const Status why = engine.ok() ? cutoff.value()->abort().why() : engine.status();
    if (!is_over(*cutoff.value(), plan.value(), why)) return why;
    log(LogLevel::kInfo, "worker {}: plan {} is over before it was formed: {}", members_->worker(), last_,
        why.sentence());
  }
}

/// Tells hvdrun that a newcomer has come to the members that hold the state. Until then the end of the plan takes it to
/// the next one within the same call, and it still has nothing.
Status ElasticJob::tell_formed(const Plan& plan) {
  const int rank = plan.rank_of(members_->worker());
  if (!is_new(plan, rank)) return {};
  return store_->add(formed_key(planned_job(parts_.identity.job, plan.number), rank), 1).status();
}

/// Whether the plan that was not formed leads to another one.
bool ElasticJob::is_over(const Cutoff& cutoff, const Plan& plan, const Status& why) {
  if (cutoff.raised()) return true;
  // The same on all members, or this call's own fault: no other plan would do better.
  if (why.code() == Code::kMismatch || why.code() == Code::kInvalidArgument) return false;
  if (cutoff.abort().await(Faults::kLongestGrace)) return true;
  const bool others_fault = why.rank() >= 0 && why.rank() != plan.rank_of(members_->worker());
  if (!others_fault || why.code() == Code::kTimeout) return false;
  leave(Ending::kAtOnce);
  return true;
}

void ElasticJob::leave(Ending ending) { members_->ask({last_, last_ != 0 && ending == Ending::kInOrder}); }

Identity ElasticJob::identity_in(const Plan& plan) const {
  Identity identity = parts_.identity;
  identity.rank = plan.rank_of(members_->worker());
  identity.size = static_cast<int>(plan.workers.size());
  identity.local_size = plan.workers_beside(identity.rank);
  identity.host = plan.workers[static_cast<size_t>(identity.rank)].host;
  identity.job = planned_job(parts_.identity.job, plan.number);
  identity.elastic.number = plan.number;
  identity.elastic.slot = plan.workers[static_cast<size_t>(identity.rank)].slot;
  for (const PlannedWorker& worker : plan.workers) identity.elastic.workers.push_back(worker.id);
  return identity;
}

Settings ElasticJob::settings_in(const Plan& plan) const {
  Settings settings = parts_.settings;
  const bool file = !settings.timeline.empty() && settings.timeline != "DYNAMIC";
  if (plan.number == 1) return settings;
  if (file) settings.timeline = path_in(settings.timeline, plan.number);
  if (!settings.dump_file.empty()) settings.dump_file = path_in(settings.dump_file, plan.number);
  return settings;
}

/// Turns the sets of rueda_init into sets of workers at the first plan that this worker sees. A newcomer reads them
/// from rank 0 and is a member of none.
Status ElasticJob::fix_sets(const Plan& plan, Deadline deadline) {
  const int rank = plan.rank_of(members_->worker());
  if (!sets_) {
    const bool own = rank == 0 || parts_.sets.empty() || !is_new(plan, rank);
    auto sets = own ? own_sets(plan) : sets_of_others(plan, deadline);
    if (!sets.ok()) return sets.status();
    sets_ = std::move(sets).value();
  }
  bool any_new = false;
  for (int other = 0; other < static_cast<int>(plan.workers.size()); ++other) any_new = any_new || is_new(plan, other);
  if (rank != 0 || !any_new) return {};
  return store_->set(sets_key(planned_job(parts_.identity.job, plan.number)), encode(PlannedSets{*sets_}));
}

/// In plan 1 rank and number of each worker are the same. So every worker of the first start finds the same sets,
/// whatever plan it sees first.
Result<ElasticJob::WorkerSets> ElasticJob::own_sets(const Plan& plan) const {
  ProcessSets checked(0, static_cast<int>(plan.workers.size()));
  WorkerSets sets;
  for (const StaticSet& set : parts_.sets) {
    std::vector<int> ranks = set.ranks;
    if (plan.number == 1) RUEDA_RETURN_IF_ERROR(checked.add(ranks, {}).status());
    sets.emplace_back(ranks.begin(), ranks.end());
  }
  return sets;
}

Result<ElasticJob::WorkerSets> ElasticJob::sets_of_others(const Plan& plan, Deadline deadline) {
  const auto bytes = store_->get(sets_key(planned_job(parts_.identity.job, plan.number)), deadline);
  if (!bytes.ok()) return bytes.status();
  auto known = decode_planned_sets(bytes.value());
  if (!known)
    return Status(
        Code::kMismatch,
        "init: the process sets that rank 0 wrote cannot be read; check that all workers come from one build");
  if (known->members.size() != parts_.sets.size()) {
    return Status(Code::kMismatch, fmt::format("init: this worker gives {} process sets, the first workers gave {}",
                                               parts_.sets.size(), known->members.size()));
  }
  return std::move(known->members);
}

std::vector<StaticSet> ElasticJob::sets_in(const Plan& plan) const {
  std::vector<StaticSet> sets;
  for (const std::vector<int64_t>& members : *sets_) {
    StaticSet& set = sets.emplace_back();
    for (const int64_t id : members) {
      set.ranks.push_back(plan.rank_of(id));
      if (set.ranks.back() >= 0 || !set.lost.empty()) continue;
      set.lost = fmt::format("process set {} of rueda_init ended because worker {} left the job; make a new one",
                             sets.size(), id);
    }
  }
  return sets;
}

Result<std::shared_ptr<Engine>> ElasticJob::form(const Plan& plan, const std::shared_ptr<Cutoff>& cutoff,
                                                 Deadline deadline) {
  const Deadline formed_by = forming_deadline(patience_, deadline);
  RUEDA_RETURN_IF_ERROR(fix_sets(plan, formed_by));
  const Identity identity = identity_in(plan);
  const std::vector<StaticSet> sets = sets_in(plan);
  FormOptions options;
  options.build += parts_.plugins.suffix;
  options.process_sets = in_words(sets);
  options.numbered_by = parts_.identity.job;
  options.cutoff = cutoff.get();
  options.reserve = reserve_.get();
  const Settings settings = settings_in(plan);
  // A lone worker forms without the store, and hvdrun counts wishes.
  if (identity.size == 1) RUEDA_RETURN_IF_ERROR(store_->add(wishes_key(identity.job, 0), 1).status());
  auto formation = form_epoch(identity, store_.get(), settings, formed_by, options);
  if (!formation.ok()) return formation.status();
  LauncherLink link;
  link.verdicts = plan_verdicts(*members_, cutoff, identity.job);
  link.dumps = dumps_->source();
  return start_engine(std::move(formation).value(), std::move(link), parts_.plugins, sets);
}

}  // namespace rueda::core
