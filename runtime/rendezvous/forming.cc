// One attempt to form an epoch, step by step. What each step needs from other ranks decides the order:
//
//   every rank                                      rank 0 besides
//   open listeners, leave the wish
//                                                   gather the wishes, admit them, publish the world, answer
//   await the answer: the epoch's number
//   learn the world; exchange descriptors on the
//   host; publish the local report
//                                                   gather the reports, publish the partition into hosts
//   learn the hosts
//   connect control links to other hosts
//
// Listeners come first, because their addresses are in the wish. A rank that cannot share memory still reports, so that
// rank 0 learns the reason and tells it to all. The control connections come last: only the partition says which are
// due.
#include "runtime/rendezvous/forming.h"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/base/shortage.h"
#include "runtime/net/interfaces.h"
#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/control_tree.h"
#include "runtime/rendezvous/locality.h"
#include "runtime/rendezvous/memory_budget.h"
#include "runtime/store/job_key.h"
#include "runtime/store/long_value.h"
#include "runtime/store/store_keys.h"

namespace rueda::core {
namespace {

/// The most time for passing descriptors, and at most half of what is left: if it hangs, TCP still needs time.
constexpr std::chrono::seconds kLongestExchange{10};

/// How long rank 0 stays after its init has failed, so that the others can read why. They only need to be scheduled.
constexpr std::chrono::seconds kLastWord{2};

/// What a library throws, for lack of descriptors or memory, is this rank's failure like any other.
template <typename Step>
Status safely(Step&& step) {
  try {
    return step();
  } catch (const std::exception& error) {
    return failure_of(error);
  }
}

Result<std::vector<std::string>> addresses_for(const Identity& identity, const Settings& settings,
                                               const FabricShare& fabric) {
  const bool fabric_carries_all = fabric.control && fabric.data;
  if (identity.local_size == identity.size || fabric_carries_all) return std::vector<std::string>{"127.0.0.1"};
  return listen_addresses(settings.network_interfaces);
}

TransportEpoch transport_epoch(const Formation& formation) {
  const EpochPlan& plan = formation.plan;
  TransportEpoch epoch;
  epoch.job = plan.job;
  epoch.epoch = plan.epoch;
  epoch.rank = plan.rank;
  epoch.key = formation.key.bytes;
  epoch.keyed = formation.key.present;
  epoch.encrypt_data = plan.settings.tls_all;
  epoch.sockets_per_peer = std::max(1, plan.settings.sockets_per_peer);
  // A peer that is stopped under a debugger proves nothing either: what is never dead for the user is not lost here.
  const auto patience = std::chrono::duration_cast<std::chrono::nanoseconds>(plan.settings.peer_timeout);
  epoch.unproven_limit = patience.count() > 0 ? std::max(patience, epoch.unproven_limit) : std::chrono::nanoseconds(0);
  for (const Endpoint& rank : plan.ranks) epoch.ranks.push_back({rank.host, rank.pid, rank.addresses, rank.port});
  epoch.workers = plan.elastic.workers;
  return epoch;
}

}  // namespace

Forming::Forming(const Identity& identity, Store& store, const Settings& settings, Deadline deadline,
                 const FormOptions& options)
    : identity_(identity),
      store_(store),
      settings_(settings),
      deadline_(deadline),
      options_(options),
      roll_call_(store, identity.job, identity.size, identity.elastic.workers) {
  formation_.plan.job = identity.job;
  formation_.plan.rank = identity.rank;
  formation_.plan.size = identity.size;
  formation_.plan.settings = settings;
  formation_.plan.elastic = identity.elastic;
  formation_.key = identity.key;
}

Result<Formation> Forming::run() {
  const Status status = safely([this] { return run_steps(); });
  if (!status.ok()) {
    // The listeners close, so that a rank that dials this one does not wait for it.
    transport_.reset();
    exchange_.reset();
    // Then the own wish, so that a rank 0 that is still waiting does not count on this rank.
    if (wish_number_ != 0) roll_call_.withdraw(identity_.rank, wish_number_, nonce_);
    if (store_.ends_with_process()) roll_call_.await_withdrawals(Deadline::after(kLastWord));
    return status;
  }
  formation_.transport = std::move(transport_);
  // Rank 0 has no sockets to choose between then.
  if (options_.fabric.data) formation_.plan.settings.sockets_per_peer = 1;
  // TCP stays inside for what the fabric does not carry, and for its event loop.
  if (options_.fabric.control || options_.fabric.data) {
    formation_.transport =
        std::make_unique<FabricTransport>(std::move(formation_.transport), options_.fabric, transport_epoch(formation_),
                                          remote_control_peers(), formation_.doorbell.get());
  }
  return std::move(formation_);
}

Status Forming::run_steps() {
  const Status fit = safely([this] { return open_listeners(); });
  const Status left = leave_wish(fit);
  const bool leads = identity_.rank == 0;
  if (leads) RUEDA_RETURN_IF_ERROR(call_roll(fit));
  RUEDA_RETURN_IF_ERROR(left);
  const auto epoch = roll_call_.await_answer(nonce_, deadline_);
  if (!epoch.ok()) return epoch.status();
  formation_.plan.epoch = epoch.value();
  forget_last_epoch();
  LocalReport report;
  report.status = safely([&] { return meet_neighbours(report); });
  if (!report.status.ok()) exchange_.reset();  // neighbours that still dial find out at once
  RUEDA_RETURN_IF_ERROR(store_.set(local_key(identity_.job, formation_.plan.epoch, identity_.rank), encode(report)));
  if (leads) RUEDA_RETURN_IF_ERROR(publish_hosts());
  RUEDA_RETURN_IF_ERROR(learn_hosts());
  RUEDA_RETURN_IF_ERROR(report.status);  // even if the store gives every rank as fit
  RUEDA_RETURN_IF_ERROR(check_sharing());
  return connect_others();
}

Status Forming::open_listeners() {
  const auto addresses = addresses_for(identity_, settings_, options_.fabric);
  if (!addresses.ok()) return addresses.status();
  auto transport = TcpTransport::listen(addresses.value());
  if (!transport.ok()) return transport.status();
  transport_ = std::move(transport).value();
  auto exchange = LocalExchange::listen();
  unshared_ = exchange.status();
  if (exchange.ok()) exchange_ = std::move(exchange).value();
  memory_limits_ = memory_limits();  // before the wish: no rank has taken a segment yet that it had not prepared
  return {};
}

std::string Forming::own_name() const {
  return rank_name(identity_.rank, identity_.host, ::getpid(), formation_.plan.worker_of(identity_.rank));
}

/// The wish of a rank that is unfit stays: rank 0 shall find it. This returns the reason then.
Status Forming::leave_wish(const Status& fit) {
  auto wish = make_wish();
  if (!wish.ok()) return wish.status();
  wish.value().unfit = fit.sentence();
  nonce_ = wish.value().nonce;
  const auto number = roll_call_.leave_wish(wish.value());
  // Also if rank 0 and its store have ended by now.
  if (!fit.ok()) return {fit.code(), "init: " + own_name() + " cannot take part: " + fit.sentence(), identity_.rank};
  if (number.ok()) wish_number_ = number.value();
  return number.status();
}

Result<Wish> Forming::make_wish() const {
  auto nonce = random_name();
  if (!nonce.ok()) return nonce.status();
  Wish wish;
  wish.build = options_.build;
  wish.nonce = std::move(nonce).value();
  wish.rank = identity_.rank;
  wish.size = identity_.size;
  wish.key_mark = key_mark(identity_.key, identity_.job);
  wish.agreed = print_agreed(settings_);
  wish.process_sets = options_.process_sets;
  wish.endpoint.host = identity_.host;
  wish.endpoint.pid = ::getpid();
  wish.endpoint.worker = identity_.worker;
  if (transport_ != nullptr) {
    wish.endpoint.addresses = transport_->addresses();
    wish.endpoint.port = transport_->port();
  }
  if (exchange_) wish.endpoint.unix_name = exchange_->name();
  return wish;
}

// Every rank has answered the last epoch's questions or failed before it left a new wish, and the answer to the new one
// shows that all have. A job that has shrunk has reports of ranks that are no more; rank 0 removes those.
void Forming::forget_last_epoch() {
  const std::string& job = identity_.job;
  const uint64_t last = formation_.plan.epoch - 1;
  if (last == 0) return;
  static_cast<void>(store_.remove(local_key(job, last, identity_.rank)));
  if (identity_.rank != 0) return;
  const auto hosts = store_.get(hosts_key(job, last), Deadline::after(std::chrono::nanoseconds(0)));
  const auto ranks = hosts.ok() ? decode_numbers(hosts.value()) : Result<std::vector<uint64_t>>(hosts.status());
  const int before = ranks.ok() ? static_cast<int>(ranks.value().size()) : 0;
  for (int rank = identity_.size; rank < before; ++rank) static_cast<void>(store_.remove(local_key(job, last, rank)));
  static_cast<void>(store_.remove(hosts_key(job, last)));
  static_cast<void>(remove_long(store_, world_key(job, last)));
}

Status Forming::learn_world() {
  EpochPlan& plan = formation_.plan;
  const auto bytes = get_long(store_, world_key(plan.job, plan.epoch), deadline_);
  if (!bytes.ok()) return bytes.status();
  auto world = decode_world(bytes.value());
  if (!world.ok()) return world.status();
  if (world.value().ranks.size() != static_cast<size_t>(plan.size)) {
    return {Code::kMismatch, "init: rank 0 published " + std::to_string(world.value().ranks.size()) +
                                 " ranks; this job has " + std::to_string(plan.size)};
  }
  plan.ranks = std::move(world.value().ranks);
  RUEDA_RETURN_IF_ERROR(check_published(world.value().agreed, settings_));
  RUEDA_RETURN_IF_ERROR(apply_agreed(world.value().agreed, plan.settings));
  if (!formation_.key.present) formation_.key = world.value().key;
  if (!formation_.key.present && !settings_.insecure) {
    return {Code::kMismatch,
            "init: the store gives no job key as rank 0's, and this rank has none; check what else writes to the "
            "store, or set RUEDA_INSECURE=1 on all ranks if nobody else can reach their ports"};
  }
  const TransportEpoch epoch = transport_epoch(formation_);
  scope_ = epoch.hello_scope();
  return transport_->configure(epoch);
}

Status Forming::meet_neighbours(LocalReport& report) {
  RUEDA_RETURN_IF_ERROR(learn_world());
  const auto peers = neighbours(formation_.plan.ranks, formation_.plan.rank);
  auto doorbell = make_doorbell();
  if (!doorbell.ok()) return doorbell.status();
  formation_.doorbell = std::move(doorbell).value();
  RUEDA_RETURN_IF_ERROR(make_segment(peers));
  if (peers.empty()) return {};
  if (unshared_.ok()) return exchange_with(peers, report);
  report.failures.push_back({formation_.plan.rank, unshared_.sentence()});
  log(LogLevel::kInfo, "init: rank {} shares no memory with any rank: {}", identity_.rank, unshared_.sentence());
  return {};
}

/// A segment that neighbours can map; if that is refused, or a memory limit has no room for it, one of this rank alone.
/// Then the exchange closes, so that neighbours which dial find out at once.
Status Forming::make_segment(const std::vector<int>& peers) {
  const EpochPlan& plan = formation_.plan;
  const SegmentLayout layout = layout_for(plan.settings, static_cast<int>(peers.size()) + 1);
  std::vector<int64_t> processes;
  for (const int peer : peers) processes.push_back(plan.ranks[static_cast<size_t>(peer)].pid);
  RUEDA_RETURN_IF_ERROR(check_budget(memory_limits_, kLeastBytes, processes));
  auto prepared = take_prepared(options_.reserve, layout);
  if (unshared_.ok() && !prepared) {
    unshared_ = check_budget(memory_limits_, layout.total_bytes() + kLeastBytes, processes);
  }
  if (unshared_.ok()) {
    auto segment = create_segment(layout, plan.epoch, plan.rank, std::move(prepared));
    unshared_ = segment.status();
    if (segment.ok()) formation_.segment = std::move(segment).value();
  }
  if (unshared_.ok()) return {};
  exchange_.reset();
  auto segment = Segment::create_private(layout, plan.epoch, plan.rank);
  if (!segment.ok())
    return {Code::kSystem,
            unshared_.sentence() + "; private memory instead was refused too: " + segment.status().sentence()};
  formation_.segment = std::move(segment).value();
  return {};
}

/// Nothing else depends on the arena: without one, tensors that the program asks for are private.
void Forming::make_arena(const std::vector<int>& peers) {
  const Settings& settings = formation_.plan.settings;
  if (!settings.shared_tensors) return;
  auto arena = TensorArena::create(arena_bytes(settings, static_cast<int>(peers.size()) + 1));
  if (arena.ok()) {
    formation_.arena = std::move(arena).value();
  } else {
    log(LogLevel::kInfo, "init: tensors of rank {} lie in private memory: {}", identity_.rank,
        arena.status().sentence());
  }
}

Status Forming::exchange_with(const std::vector<int>& peers, LocalReport& report) {
  std::vector<LocalCandidate> candidates;
  for (const int peer : peers) {
    const std::string& name = formation_.plan.ranks[static_cast<size_t>(peer)].unix_name;
    if (!name.empty()) candidates.push_back({peer, name});  // without one, the peer's own report says why
  }
  const auto share = deadline_.left(kLongestExchange * 2) / 2;
  make_arena(peers);
  auto outcomes = exchange_->exchange(scope_, {*formation_.segment, formation_.doorbell.get(), formation_.arena.get()},
                                      candidates, deadline_.earlier(Deadline::after(share)), options_.cutoff);
  exchange_.reset();  // closes the socket: every neighbour has come or failed
  if (!outcomes.ok()) return outcomes.status();
  for (LocalOutcome& outcome : outcomes.value()) {
    if (outcome.status.ok()) {
      formation_.local.push_back(std::move(outcome.peer));
    } else {
      report.failures.push_back({outcome.rank, outcome.status.sentence()});
      log(LogLevel::kInfo, "init: rank {} shares no memory with {}: {}", identity_.rank,
          formation_.plan.name_of(outcome.rank), outcome.status.sentence());
    }
  }
  return {};
}

Status Forming::learn_hosts() {
  EpochPlan& plan = formation_.plan;
  const auto bytes = store_.get(hosts_key(plan.job, plan.epoch), deadline_);
  if (!bytes.ok()) return bytes.status();
  const auto numbers = decode_numbers(bytes.value());
  if (!numbers.ok()) return numbers.status();
  if (numbers.value().size() != plan.ranks.size())
    return {Code::kMismatch, "init: rank 0 published no partition into hosts", 0};
  for (const uint64_t number : numbers.value()) {
    if (number >= plan.ranks.size()) {
      return {Code::kMismatch, "init: rank 0 published a partition into hosts with host " + std::to_string(number), 0};
    }
    plan.host_of.push_back(static_cast<int>(number));
  }
  const int here = plan.host_of[static_cast<size_t>(plan.rank)];
  // Descriptors passed with some ranks that the partition put on another host; memory must not be shared with them.
  std::erase_if(formation_.local,
                [&](const LocalPeer& peer) { return plan.host_of[static_cast<size_t>(peer.rank)] != here; });
  return {};
}

/// A store that lies could put a stranger on this host: what is safe between ranks that share memory is not with it.
Status Forming::check_sharing() const {
  const EpochPlan& plan = formation_.plan;
  for (const int rank : plan.local_ranks()) {
    const auto is_it = [&](const LocalPeer& peer) { return peer.rank == rank; };
    if (rank == plan.rank || std::any_of(formation_.local.begin(), formation_.local.end(), is_it)) continue;
    return {Code::kMismatch,
            "init: the partition into hosts puts " + plan.name_of(rank) + " and rank " + std::to_string(plan.rank) +
                " on one host, but they share no memory; the store may be another job's or lie",
            rank};
  }
  return {};
}

std::vector<int> Forming::remote_control_peers() const {
  const EpochPlan& plan = formation_.plan;
  const int here = plan.host_of[static_cast<size_t>(plan.rank)];
  std::vector<int> others = control_peers(plan);
  std::erase_if(others, [&](int peer) { return plan.host_of[static_cast<size_t>(peer)] == here; });
  return others;
}

Status Forming::connect_others() {
  const std::vector<int> others = remote_control_peers();
  if (others.empty() || options_.fabric.control) return {};
  Status connected = safely([&] {
    return transport_->connect_control(
        others, deadline_, [this](int rank) { return given_up(rank); }, options_.cutoff);
  });
  if (connected.ok()) return {};
  // A rank that refuses connections may have said why it has ended.
  const bool others_fault = connected.rank() >= 0 && connected.rank() != formation_.plan.rank;
  if (Status why = others_fault ? given_up(connected.rank()) : Status(); !why.ok()) return why;
  // Others may wait for this rank's connection: they look at its report meanwhile.
  LocalReport last;
  last.status = connected;
  static_cast<void>(store_.set(local_key(identity_.job, formation_.plan.epoch, identity_.rank), encode(last)));
  return connected;
}

Status Forming::given_up(int rank) {
  const EpochPlan& plan = formation_.plan;
  const auto bytes = store_.get(local_key(plan.job, plan.epoch, rank), Deadline::after(std::chrono::nanoseconds(0)));
  const auto report = bytes.ok() ? decode_local_report(bytes.value()) : Result<LocalReport>(bytes.status());
  if (!report.ok() || report.value().status.ok()) return {};
  const Status& why = report.value().status;
  return {why.code(), "init: " + plan.name_of(rank) + ": " + why.sentence(), rank};
}

}  // namespace rueda::core
