// How an engine comes up, from a formed epoch to the threads that run in it:
//
//   constructor   every object, in the order in which they need each other; no thread and no other rank yet
//   begin         what runs beside the coordinator, then the coordinator, which may run turns at once
//   make_lane     a lane at its first use
//
// The other ranks have formed the epoch with this one. If it cannot begin, it ends the epoch, so that they learn why.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/shortage.h"
#include "runtime/base/usable_cores.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/engine.h"
#include "runtime/net/shm_control_link.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {
namespace {

/// How long an engine that cannot start takes to tell the others.
constexpr std::chrono::seconds kTellsOfFailure{1};

/// If ranks outnumber cores, a spinning thread keeps its peer from running: then every spin yields.
WaitStyle wait_style(const EpochPlan& plan) {
  return plan.local_size() > usable_cores() ? WaitStyle::kYield : WaitStyle::kPause;
}

bool reaches_arenas(const Formation& formation) {
  return formation.arena != nullptr && std::all_of(formation.local.begin(), formation.local.end(),
                                                   [](const LocalPeer& peer) { return peer.arena != nullptr; });
}

/// The word for the caller's core of each rank of the host, by local rank; empty unless this rank shares memory with
/// all of them.
std::vector<std::atomic<uint32_t>*> caller_cores(const Formation& formation) {
  const auto ranks = static_cast<size_t>(formation.plan.local_size());
  if (formation.local.size() + 1 != ranks) return {};
  const std::vector<int> locals = formation.plan.local_ranks();
  std::vector<std::atomic<uint32_t>*> words(ranks, &formation.segment->control().caller_core);
  for (const LocalPeer& peer : formation.local) {
    words[static_cast<size_t>(std::find(locals.begin(), locals.end(), peer.rank) - locals.begin())] =
        &peer.segment->control().caller_core;
  }
  return words;
}

/// Null unless this rank has claimed one core for its lanes, has as many cores as its host has ranks, and shares memory
/// with all of those.
std::unique_ptr<LaneCores> follow_callers(const Formation& formation, const std::vector<int>& claimed) {
  std::vector<int> cores = allowed_cores();
  std::vector<std::atomic<uint32_t>*> words = caller_cores(formation);
  if (claimed.size() != 1 || words.size() < 2 || cores.size() != words.size()) return nullptr;
  return std::make_unique<LaneCores>(static_cast<size_t>(formation.plan.local_rank()), std::move(cores),
                                     std::move(words));
}

/// Null unless the host has more ranks than cores, and two cores or more, and this rank shares memory with all of them.
std::unique_ptr<RankSpread> spread_ranks(const Formation& formation) {
  std::vector<int> cores = allowed_cores();
  std::vector<std::atomic<uint32_t>*> words = caller_cores(formation);
  if (!formation.plan.settings.spread_ranks || cores.size() < 2 || words.size() <= cores.size()) return nullptr;
  return std::make_unique<RankSpread>(static_cast<size_t>(formation.plan.local_rank()), std::move(cores),
                                      std::move(words));
}

/// By rank; null for ranks that do not share memory with this one.
std::vector<ControlWords*> control_words(const Formation& formation) {
  std::vector<ControlWords*> words(static_cast<size_t>(formation.plan.size));
  words[static_cast<size_t>(formation.plan.rank)] = &formation.segment->control();
  for (const LocalPeer& peer : formation.local) words[static_cast<size_t>(peer.rank)] = &peer.segment->control();
  return words;
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::start(Formation formation, std::unique_ptr<Executor> executor,
                                              std::unique_ptr<VerdictSource> verdicts,
                                              std::unique_ptr<DumpSource> dumps) {
  std::shared_ptr<Engine> engine;
  Status begun;
  try {
    engine.reset(new Engine(std::move(formation), std::move(executor), std::move(verdicts), std::move(dumps)));
    begun = engine->begin();
  } catch (const std::exception& error) {
    begun = failure_of(error);
  }
  if (begun.ok()) return engine;
  if (engine == nullptr) return begun;
  // The others have formed the epoch with this rank: its end tells them why there is none.
  const Status why(Code::kSystem, fmt::format("{}: {}", engine->plan_.name_of(engine->plan_.rank), begun.sentence()),
                   engine->plan_.rank);
  engine->epoch_over(why);
  engine->shutdown(Deadline::after(kTellsOfFailure));
  return why;
}

/// The coordinator last: it finds everything in its state, and may run turns at once.
Status Engine::begin() {
  serve_metrics();
  begin_timeline();
  start_heart();
  return coordinator_->start();
}

Engine::Engine(Formation formation, std::unique_ptr<Executor> executor, std::unique_ptr<VerdictSource> verdicts,
               std::unique_ptr<DumpSource> dumps)
    : formation_(std::move(formation)),
      plan_(formation_.plan),
      farewell_(Code::kShutDown, fmt::format("{} has shut down", plan_.name_of(plan_.rank)), plan_.rank),
      executor_(std::move(executor)),
      style_(wait_style(plan_)),
      reaches_arenas_(reaches_arenas(formation_)),
      one_host_(plan_.local_size() == plan_.size),
      // A spinning caller and a lane's thread for each rank of the host.
      cores_to_spare_(2 * plan_.local_size() <= usable_cores()),
      may_nap_(!cores_to_spare_ && plan_.settings.caller_progress &&
               formation_.local.size() + 1 == static_cast<size_t>(plan_.size)),
      segment_bytes_(formation_.segment->layout().total_bytes()),
      claim_(plan_.settings.thread_affinity.empty() ? share_of_cores(plan_.local_rank(), plan_.local_size())
                                                    : std::vector<int>()),
      lane_cores_(follow_callers(formation_, claim_.cores())),
      spread_(spread_ranks(formation_)),
      faults_(plan_, verdicts ? JudgedBy::kLauncher : JudgedBy::kRankZero),
      sets_(plan_.rank, plan_.size),
      timeline_(
          plan_, plan_.host_of[0] == plan_.host_of[static_cast<size_t>(plan_.rank)],
          [this](uint8_t number) { return executor_->algorithm_name(number); }, [this] { ring_coordinator(); }),
      recorder_(timeline_),
      trial_times_(plan_.rank, control_words(formation_)),
      teams_(plan_.rank, control_upstream(plan_), global_set(plan_)),
      lanes_(
          plan_.settings.num_lanes, [this](int lane) { return make_lane(lane); }, abort_,
          [this](Batch& batch, const Status& result) { batch_finished(batch, result); },
          [this](const Batch& batch) { check_devices(batch); }),
      baton_(formation_.segment->control().asleep, formation_.segment->control().expecting),
      late_watch_(std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.stall_check_time)),
      stall_judge_(std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.stall_check_time),
                   std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.stall_shutdown_time)) {
  // These use the members above, so they are made last.
  if (plan_.rank == 0) {
    tuning_ = std::make_unique<Tuning>(plan_.settings, *executor_, tune_facts(), task_thread_);
  }
  const AgreementConfig config = agreement_config();
  turn_ = std::make_unique<Turn>(Turn::Parts{
      config, make_links(), plan_.size > 1 ? control_peers(plan_) : std::vector<int>(), control_upstream(plan_),
      relay_config(plan_, config.sets), make_heartbeats(), inbox_, lanes_, teams_, *executor_, *this, signals_, abort_,
      recorder_, answers_, timeline_, trial_times_, plan_.settings.early_inputs && plan_.local_size() > 1});
  coordinator_ = std::make_unique<Coordinator>(Coordinator::Parts{
      plan_, formation_, std::move(verdicts), std::move(dumps), faults_, abort_, baton_, lanes_, timeline_, *this});
}

/// An engine that nothing shut down still says goodbye, so that its peers do not take it for dead.
Engine::~Engine() { shutdown(Deadline::after(std::chrono::seconds(5))); }

/// `form_epoch` has compared the settings that must be the same on all ranks.
AgreementConfig Engine::agreement_config() const {
  AgreementConfig config;
  config.epoch = plan_.epoch;
  config.rank = plan_.rank;
  config.size = plan_.size;
  config.fusion_threshold_bytes = plan_.settings.fusion_threshold;
  config.cache_capacity = plan_.settings.cache_capacity;
  config.deterministic = plan_.settings.deterministic;
  config.relayed = uses_control_tree(plan_);
  config.upstream = control_upstream(plan_);
  config.slot_bytes = formation_.segment->layout().slot_bytes;
  config.names = plan_.names();
  config.host_of = plan_.host_of;
  config.sets = {global_set(plan_)};
  if (tuning_ == nullptr) return config;  // only rank 0 chooses
  config.select = [this](const BatchShape& shape) { return tuning_->select(shape); };
  config.timed = [this](const TrialTime& time) { tuning_->timed(time); };
  return config;
}

/// Only a file needs more of them than the slots.
TuneFacts Engine::tune_facts() const {
  TuneFacts facts = plan_.settings.tune_file.empty() ? TuneFacts() : facts_of_machine();
  facts.slot_bytes = formation_.segment->layout().slot_bytes;
  for (const int host : plan_.host_of) {
    if (static_cast<size_t>(host) >= facts.hosts.size()) facts.hosts.resize(static_cast<size_t>(host) + 1);
    ++facts.hosts[static_cast<size_t>(host)];
  }
  return facts;
}

/// For peers on other hosts: a lost host closes nothing. A launcher hears of lost hosts itself, but not that only the
/// ranks' network is gone. Under MPI, MPI watches.
Heartbeats Engine::make_heartbeats() const {
  std::vector<int> peers;
  if (plan_.size > 1 && plan_.settings.controller != "mpi") peers = control_peers(plan_);
  std::erase_if(peers, [this](int rank) {
    return plan_.host_of[static_cast<size_t>(rank)] == plan_.host_of[static_cast<size_t>(plan_.rank)];
  });
  return {peers, std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.peer_timeout)};
}

/// For the ranks of this host, which judge by it.
void Engine::start_heart() {
  const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.peer_timeout);
  if (formation_.local.empty() || limit.count() <= 0) return;
  heart_ = std::make_unique<Heart>(formation_.segment->control().beats, limit);
  heart_->start("rueda-heart", plan_.rank);
}

std::vector<std::unique_ptr<ControlLink>> Engine::make_links() {
  std::vector<std::unique_ptr<ControlLink>> links(static_cast<size_t>(plan_.size));
  const std::vector<int> locals = plan_.local_ranks();
  const auto index_of = [&](int rank) {
    return static_cast<int>(std::find(locals.begin(), locals.end(), rank) - locals.begin());
  };
  if (plan_.size == 1) return links;
  // Shared memory if the peer is on this host, else a connection of the transport.
  for (const int rank : control_peers(plan_)) {
    auto& link = links[static_cast<size_t>(rank)];
    for (const LocalPeer& peer : formation_.local) {
      if (peer.rank != rank) continue;
      link = std::make_unique<ShmControlLink>(
          LocalPair{formation_.segment, peer.segment, index_of(plan_.rank), index_of(rank), rank, peer.doorbell.get()});
    }
    if (link == nullptr) link = formation_.transport->control_link(rank);
  }
  return links;
}

/// The baton's holder, at the first batch of the lane's first process set. The mesh reaches ranks of this host through
/// their segments and the others through channels of the transport; both exist before any lane does.
std::unique_ptr<Lane> Engine::make_lane(int lane) {
  std::vector<std::shared_ptr<Segment>> segments(static_cast<size_t>(plan_.size));
  segments[static_cast<size_t>(plan_.rank)] = formation_.segment;
  for (const LocalPeer& peer : formation_.local) segments[static_cast<size_t>(peer.rank)] = peer.segment;
  std::unique_ptr<ChannelSet> channels;
  if (formation_.transport != nullptr) channels = formation_.transport->channel_set(lane, abort_);
  auto mesh = std::make_unique<Mesh>(plan_.rank, lane, std::move(segments), std::move(channels), abort_, style_);
  std::vector<std::shared_ptr<TensorArena>> arenas(static_cast<size_t>(plan_.size));
  arenas[static_cast<size_t>(plan_.rank)] = formation_.arena;
  for (const LocalPeer& peer : formation_.local) arenas[static_cast<size_t>(peer.rank)] = peer.arena;
  mesh->use_arenas(std::move(arenas));
  const std::vector<int>& chosen = plan_.settings.thread_affinity;
  LaneObserver& observer = *this;
  return std::make_unique<Lane>(std::move(mesh), *executor_, observer,
                                Lane::ThreadSetup{fmt::format("rueda-lane-{}", lane),
                                                  chosen.empty() ? claim_.cores() : chosen, lane_cores_.get()});
}

}  // namespace rueda::core
