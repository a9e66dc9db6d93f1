// The coordinator thread: takes the baton when rung, sleeps in the transport's loop, collects evidence of deaths.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/log.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/engine/core_claim.h"
#include "runtime/engine/drive.h"
#include "runtime/engine/engine.h"
#include "runtime/net/process_state.h"
#include "runtime/net/transport.h"
#include "runtime/rendezvous/control_tree.h"

namespace rueda::core {
namespace {

constexpr std::chrono::nanoseconds kTick = std::chrono::seconds(1);
/// While a peer is stopped, so that it is judged soon after its limit.
constexpr std::chrono::nanoseconds kWatchfulTick = std::chrono::milliseconds(200);
/// While another thread runs turns.
constexpr std::chrono::nanoseconds kBusyTick = std::chrono::milliseconds(100);
/// Between two looks at evidence that waits for the baton.
constexpr std::chrono::milliseconds kLeastSleep{1};
/// How long a lane whose stream broke waits for a verdict about the peer before it reports what it saw itself: longer
/// than that evidence is held back.
constexpr std::chrono::milliseconds kEvidenceLimit{2500};

void drain(int fd) {
  uint64_t count = 0;
  static_cast<void>(!::read(fd, &count, sizeof count));
}

}  // namespace

void Engine::coordinate() {
  place_thread("rueda-coord", plan_.settings.thread_affinity);
  next_tick_ = SteadyClock::now() + usual_tick();
  if (formation_.transport != nullptr) watch_peers();
  while (!stopping_.load()) {
    if (baton_.try_take_or_wish()) {
      drive_quietly();
      settle();
    }
    tick();
    if (abort_.raised()) record_error();
    if (dump_signal_ != nullptr && dump_signal_->take()) worker_.post([this] { dump_for_signal(); });
    const Deadline wake = faults_.next().earlier(Deadline::at(next_tick_));
    const std::chrono::nanoseconds rest = std::max<std::chrono::nanoseconds>(wake.left(kTick), kLeastSleep);
    if (formation_.transport != nullptr) {
      formation_.transport->poll(rest);
    } else {
      pollfd doorbell{formation_.doorbell.get(), POLLIN, 0};
      const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(rest);
      if (::poll(&doorbell, 1, static_cast<int>(limit.count())) > 0) drain(doorbell.fd);
    }
  }
  record_error();
}

/// Nobody is blocked in a call: no spinning, but for an inline batch whose peers are about to post.
void Engine::drive_quietly() {
  rung_.store(false);
  const auto end = SteadyClock::now() + kDriveLimit;
  while (run_turn() && SteadyClock::now() < end) {
  }
  if (lanes_.has_inline()) drive([&] { return !lanes_.has_inline(); }, [] { return true; });
}

/// What a machine without memory throws in the midst of a turn ends the epoch, not the process.
bool Engine::run_turn() {
  try {
    return turn_->run();
  } catch (const std::exception& error) {
    epoch_over(Status(Code::kSystem, fmt::format("rank {} ended the job: {}", plan_.rank, error.what()), plan_.rank));
    return false;
  }
}

void Engine::watch_peers() {
  Transport& transport = *formation_.transport;
  const int doorbell = formation_.doorbell.get();
  transport.watch(doorbell, [doorbell] { drain(doorbell); });
  for (const LocalPeer& peer : formation_.local) {
    const int rank = peer.rank;
    if (peer.pidfd.valid()) {
      transport.watch(peer.pidfd.get(), [this, rank, fd = peer.pidfd.get()] {
        faults_.observe(rank, "its process has ended");
        formation_.transport->unwatch(fd);
      });
    }
    transport.watch(peer.life.get(), [this, rank, fd = peer.life.get()] { observe_stream(fd, rank); });
  }
  if (dumps_ != nullptr) {
    transport.watch(dumps_->fd(), [this] {
      if (const std::optional<int64_t> number = dumps_->take()) {
        worker_.post([this, number = *number] { give_dump(number); });
      } else if (!dumps_->open()) {
        formation_.transport->unwatch(dumps_->fd());
      }
    });
  }
  if (verdicts_ == nullptr) return;
  transport.watch(verdicts_->fd(), [this] {
    const std::optional<Status> verdict = verdicts_->take();
    if (!verdict) return;
    formation_.transport->unwatch(verdicts_->fd());
    if (!verdict->ok()) epoch_over(*verdict);
  });
}

void Engine::observe_stream(int fd, int rank) {
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  formation_.transport->unwatch(fd);
  faults_.observe(rank, "its process has closed the connection");
}

void Engine::tick() {
  if (!abort_.raised() && faults_.next().passed()) judge_evidence();
  const auto now = SteadyClock::now();
  if (now < next_tick_) return;
  look_for_stopped_peers();
  next_tick_ = now + (stopped_.watching() ? kWatchfulTick : usual_tick());
  timeline_.tick();
  if (!baton_.try_take()) {
    next_tick_ = now + kBusyTick;
    return;
  }
  turn_->expire(now);
  turn_->release_held();
  const std::vector<int> silent = turn_->look_for_silence(now);
  look_for_late_batch(now);
  Status end;
  const std::vector<std::string> lines = look_for_stalls(now, end);
  if (inquiry_.under_way()) next_tick_ = now + kBusyTick;  // the answers are told as they come
  settle();
  for (const std::string& line : lines) log(LogLevel::kWarning, "{}", line);
  if (!end.ok()) epoch_over(end);
  for (const int rank : silent) {
    accuse(rank, fmt::format("it has been silent for RUEDA_PEER_TIMEOUT_SECONDS ({} s)",
                             plan_.settings.peer_timeout.count()));
  }
  look_for_silent_paths();
}

/// Five looks in the time that a rank of another host may be silent, and in that after which a stall is told.
std::chrono::nanoseconds Engine::usual_tick() const {
  std::chrono::nanoseconds tick = kTick;
  const auto look_within = [&tick](auto limit) {
    const auto part = std::chrono::duration_cast<std::chrono::nanoseconds>(limit) / 5;
    if (part.count() > 0) tick = std::min(tick, std::max(part, kBusyTick));
  };
  if (formation_.transport != nullptr) look_within(plan_.settings.peer_timeout);
  if (!plan_.settings.stall_check_disable) look_within(plan_.settings.stall_check_time);
  return tick;
}

/// Of a rank that may be dead, or out of reach. Where there is a launcher it judges.
void Engine::accuse(int rank, const std::string& how) {
  if (verdicts_ != nullptr && !faults_.has_left(rank)) verdicts_->report(rank, how);
  faults_.observe(rank, how);
}

/// Where a host that data goes to is lost, or cut off, between two ranks that hear of each other by no other way.
void Engine::look_for_silent_paths() {
  const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(plan_.settings.peer_timeout);
  if (formation_.transport == nullptr || limit.count() <= 0 || abort_.raised()) return;
  for (const SilentPath& path : formation_.transport->silent_paths(limit)) {
    if (!path.unreachable.empty()) {
      accuse(path.rank, fmt::format("it has been out of reach for RUEDA_PEER_TIMEOUT_SECONDS ({} s): {}",
                                    plan_.settings.peer_timeout.count(), path.unreachable));
      continue;
    }
    accuse(path.rank, fmt::format("its host has acknowledged nothing that rank {} sent from {} to {} for "
                                  "RUEDA_PEER_TIMEOUT_SECONDS ({} s)",
                                  plan_.rank, path.from, path.to, plan_.settings.peer_timeout.count()));
  }
}

void Engine::look_for_stopped_peers() {
  const auto now = SteadyClock::now();
  for (const LocalPeer& peer : formation_.local) {
    const std::optional<char> state = process_state(peer.pidfd);
    if (!state || !stopped_.seen(peer.rank, *state, now)) continue;
    const std::string how = fmt::format("it has been stopped (SIGSTOP) for RUEDA_PEER_TIMEOUT_SECONDS ({} s)",
                                        plan_.settings.peer_timeout.count());
    accuse(peer.rank, how);
  }
}

/// What the silent rank wrote comes first: a goodbye among it means that nobody died, however late it is read. While
/// another thread holds the baton nothing is decided; the wish makes it look again.
void Engine::judge_evidence() {
  if (!baton_.try_take_or_wish()) return;
  drive_quietly();
  const bool needs_none = faults_.has_left(0) || (faults_.has_left(plan_.rank) && turn_->needed_by_none());
  settle();
  // Behind rank 0's goodbye only what still runs needs anybody: who came to it late may have said none. Behind the own
  // one nothing more is heard of others' goodbyes.
  if (needs_none && lanes_.idle()) return faults_.forget();
  if (const std::optional<Status> why = faults_.due()) epoch_over(*why);
}

void Engine::rank_left(int rank) {
  faults_.left(rank);
  timeline_.left(rank);
  if (rank != plan_.rank && rank != 0) return;
  left_.store(true);
  const int upstream = control_upstream(plan_);
  const bool dismissed = rank != 0 && !ended_.load();
  inbox_.close(Status(Code::kShutDown,
                      fmt::format("{} has shut down{}", who(plan_, dismissed ? upstream : rank),
                                  dismissed ? ", and this rank reached the others through it" : ""),
                      dismissed ? upstream : rank));
  notify_progress();
}

void Engine::link_lost(int rank, const Status& how) {
  faults_.observe(rank, how.sentence());
  ring_coordinator();
}

void Engine::epoch_over(const Status& why) {
  if (!abort_.raise(why)) return;
  if (why.code() != Code::kShutDown) log(LogLevel::kInfo, "rank {}: the epoch is over: {}", plan_.rank, why.sentence());
  inbox_.close(why);
  notify_progress();
  timeline_.abandon_others();
  lanes_.wake_all();
  if (formation_.transport != nullptr) formation_.transport->wake_all();
  ring_coordinator();
}

Status Engine::ran_too_long(const Batch& batch, const std::string& what) const {
  const int awaited = lanes_.awaited(batch.set);
  const std::vector<int>& ranks = batch.team->team.ranks;
  const bool known = std::find(ranks.begin(), ranks.end(), awaited) != ranks.end();
  std::vector<int> others;
  std::remove_copy(ranks.begin(), ranks.end(), std::back_inserter(others), plan_.rank);
  std::sort(others.begin(), others.end());
  std::string whom = "no other rank";
  if (known) {
    whom = who(plan_, awaited);
  } else if (awaited == Mesh::kOthers) {
    whom = "some of " + rank_ranges(others, {});
  }
  return {
      Code::kTimeout,
      fmt::format("rank {}: {} ran longer than {}; it waited for {}", plan_.rank, what, describe(batch.limit), whom),
      known ? awaited : plan_.rank};
}

void Engine::fail_lane(const Batch& batch, const Status& result) {
  const std::string what =
      !batch.tensors.empty()
          ? describe(*batch.tensors.front()) + sets_.of_set(batch.team->number)
          : fmt::format("{}{} after this rank had joined", name_of(batch.call.kind), sets_.of_set(batch.team->number));
  if (result.code() == Code::kPeerLost && result.rank() >= 0) {
    faults_.observe(result.rank(), result.sentence());
    ring_coordinator();
    if (abort_.await(kEvidenceLimit)) return;
  }
  if (result.code() == Code::kTimeout) {
    epoch_over(ran_too_long(batch, what));
    return;
  }
  epoch_over(
      Status(result.code(), fmt::format("rank {}: {} failed: {}", plan_.rank, what, result.sentence()), result.rank()));
}

}  // namespace rueda::core
