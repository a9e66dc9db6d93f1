// The coordinator thread of an engine. Each round of its loop does, in this order:
//
//   1. turns, if the baton can be had: what rang the doorbell is in the inputs of a turn;
//   2. evidence of deaths that is due, after those turns, because a goodbye among them withdraws evidence;
//   3. once a second, a look at everything that no event announces: stopped peers, silent hosts, limits, stalls;
//   4. sleep in the transport's loop, which is also what moves the sockets' bytes; or a nap while callers submit one
//      operation after the other (burst.h).
//
// Callers run turns themselves while they wait (`Engine::wait`), so most of the time this thread only sleeps.
#include "runtime/engine/coordinator.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/engine/core_claim.h"
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
/// While the epoch ends in order: a lane that has run its last batch rings nobody.
constexpr std::chrono::milliseconds kLeavingTick{5};
/// Between two looks at evidence that waits for the baton.
constexpr std::chrono::milliseconds kLeastSleep{1};

/// Takes all rings at once: an eventfd counts them.
void drain(int fd) {
  uint64_t count = 0;
  static_cast<void>(!::read(fd, &count, sizeof count));
}

std::chrono::nanoseconds in_nanoseconds(std::chrono::duration<double> time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time);
}

/// The rank through which alone this one is heard on other hosts. -1 if there are none, or if a launcher tells them.
int lone_way_out(const Coordinator::Parts& parts) {
  const EpochPlan& plan = parts.plan;
  return parts.verdicts != nullptr || plan.local_size() == plan.size ? -1 : control_upstream(plan);
}

}  // namespace

Coordinator::Coordinator(Parts parts)
    : parts_(std::move(parts)),
      visit_(parts_.plan.settings.thread_affinity.empty() ? allowed_cores() : parts_.plan.settings.thread_affinity),
      stopped_({.whole = in_nanoseconds(parts_.plan.settings.peer_timeout),
                .first_beat = in_nanoseconds(parts_.plan.settings.init_timeout),
                .leader = lone_way_out(parts_)}) {}

Status Coordinator::start() {
  watch_signal();
  return start_thread(thread_, "of the coordinator", [this] {
    coordinator_thread.assert_held();
    run();
  });
}

void Coordinator::join() {
  if (thread_.joinable()) thread_.join();
  dump_signal_.reset();  // the handler writes to the doorbell, which the engine closes later
}

/// Does nothing unless the user named a signal: signals belong to programs.
void Coordinator::watch_signal() {
  const int signal = parts_.plan.settings.dump_signal;
  if (signal == 0) return;
  Result<std::unique_ptr<DumpSignal>> watched = DumpSignal::watch(signal, parts_.formation.doorbell.get());
  if (watched.ok()) {
    dump_signal_ = std::move(watched).value();
  } else {
    log(LogLevel::kWarning, "rank {}: RUEDA_DUMP_SIGNAL has no effect: {}", parts_.plan.rank,
        watched.status().sentence());
  }
}

void Coordinator::run() {
  place_thread("rueda-coord", parts_.plan.settings.thread_affinity);
  next_tick_ = SteadyClock::now() + usual_tick();
  safely([this]() RUEDA_ON(coordinator_thread) { watch_all(); });
  while (!stopping_.load()) safely([this]() RUEDA_ON(coordinator_thread) { round(); });
  safely([this]() RUEDA_ON(coordinator_thread) { note_error(); });  // the end may have come after the last round
}

/// An exception ends the epoch and not the thread, which is still needed to tell the others. The baton is not in hand
/// then: what runs under it lets none out.
template <typename Step>
void Coordinator::safely(Step&& step) {
  try {
    step();
  } catch (const std::exception& error) {
    parts_.tasks.step_failed(error);
  }
}

void Coordinator::watch_all() {
  if (parts_.formation.transport == nullptr) return;
  watch_peers();
  watch_launcher();
}

void Coordinator::round() {
  std::chrono::nanoseconds nap_time{0};
  // If another thread holds the baton, the wish makes it look at the inputs once more after it has let go.
  if (parts_.baton.try_take_or_wish()) {
    const size_t operations = parts_.tasks.run_turns();
    nap_time = burst_.look(operations, SteadyClock::now());
    if (nap_time.count() > 0) {
      parts_.baton.put_down_awake();
    } else {
      parts_.tasks.settle();
    }
  }
  tick();
  if (leaving_) look_whether_left();
  if (parts_.abort.raised()) note_error();
  if (dump_signal_ != nullptr && dump_signal_->take()) parts_.tasks.dump_for_signal();
  if (nap_time.count() > 0) {
    nap(nap_time);  // and look again, because nobody rings meanwhile
  } else {
    sleep();
  }
}

/// Until the doorbell rings, a socket is ready, or the next deadline comes.
void Coordinator::sleep() {
  Deadline wake = parts_.faults.next().earlier(Deadline::at(next_tick_));
  if (leaving_) wake = wake.earlier(Deadline::after(kLeavingTick));
  await_descriptors(std::max<std::chrono::nanoseconds>(wake.left(kTick), kLeastSleep));
}

/// Until the doorbell rings, or `time` has passed. All other descriptors wait meanwhile. It ends on the core of the
/// caller: on any other it would take the core of another rank, and miss the caches for each operation.
void Coordinator::nap(std::chrono::nanoseconds time) {
  visit_.stay_on(parts_.tasks.caller_core());
  const timespec limit{0, static_cast<long>(time.count())};
  pollfd ring{parts_.formation.doorbell.get(), POLLIN, 0};
  static_cast<void>(::ppoll(&ring, 1, &limit, nullptr));
  visit_.go_home();  // it stays there until it sleeps again, and what it starts may run anywhere
  await_descriptors(std::chrono::nanoseconds(0));
}

/// Waits for descriptors, for `limit` at most, and handles what they bring.
void Coordinator::await_descriptors(std::chrono::nanoseconds limit) {
  if (parts_.formation.transport != nullptr) {
    parts_.formation.transport->poll(limit);
    const Status fault = parts_.formation.transport->fault();
    if (!fault.ok()) parts_.tasks.epoch_over(fault);
    return;
  }
  sleep_alone(std::chrono::duration_cast<std::chrono::milliseconds>(limit));
}

/// A job of one rank has no transport. Only callers ring, and in an elastic job the launcher.
void Coordinator::sleep_alone(std::chrono::milliseconds limit) {
  const int verdicts = parts_.verdicts == nullptr || verdict_taken_ ? -1 : parts_.verdicts->fd();
  const int dumps = parts_.dumps == nullptr || !parts_.dumps->open() ? -1 : parts_.dumps->fd();
  pollfd rings[] = {{parts_.formation.doorbell.get(), POLLIN, 0}, {verdicts, POLLIN, 0}, {dumps, POLLIN, 0}};
  if (::poll(rings, std::size(rings), static_cast<int>(limit.count())) <= 0) return;
  if (rings[0].revents != 0) drain(rings[0].fd);
  if (rings[1].revents != 0) take_verdict();
  if (rings[2].revents != 0) take_dump_request();
}

/// Two descriptors tell of the death of a rank on this host: its pidfd, and the end of the stream that it keeps open
/// for its lifetime. A kernel, or a sandbox, without pidfds leaves the second.
void Coordinator::watch_peers() {
  Transport& transport = *parts_.formation.transport;
  const int doorbell = parts_.formation.doorbell.get();
  transport.watch(doorbell, [doorbell] { drain(doorbell); });
  for (const LocalPeer& peer : parts_.formation.local) {
    const int rank = peer.rank;
    if (peer.pidfd.valid()) {
      transport.watch(peer.pidfd.get(), [this, rank, fd = peer.pidfd.get()] {
        parts_.faults.observe(rank, "its process has ended");
        parts_.formation.transport->unwatch(fd);  // a pidfd stays readable and cannot be drained
      });
    }
    transport.watch(peer.life.get(), [this, rank, fd = peer.life.get()] {
      coordinator_thread.assert_held();
      observe_stream(fd, rank);
    });
  }
}

void Coordinator::watch_launcher() {
  Transport& transport = *parts_.formation.transport;
  if (parts_.dumps != nullptr) {
    transport.watch(parts_.dumps->fd(), [this] {
      coordinator_thread.assert_held();
      take_dump_request();
      if (!parts_.dumps->open()) parts_.formation.transport->unwatch(parts_.dumps->fd());
    });
  }
  if (parts_.verdicts == nullptr) return;
  transport.watch(parts_.verdicts->fd(), [this] {
    coordinator_thread.assert_held();
    take_verdict();
  });
}

void Coordinator::take_dump_request() {
  const std::optional<int64_t> number = parts_.dumps->take();
  if (number) parts_.tasks.dump_for_launcher(*parts_.dumps, *number);
}

/// The stream carries no data; only its end says anything. A signal handler, or a wake-up without cause, is not an end.
void Coordinator::observe_stream(int fd, int rank) {
  char byte = 0;
  const ssize_t got = ::recv(fd, &byte, 1, MSG_DONTWAIT);
  if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) return;
  parts_.formation.transport->unwatch(fd);
  parts_.faults.observe(rank, "its process has closed the connection");
}

void Coordinator::tick() {
  if (!parts_.abort.raised() && parts_.faults.next().passed()) judge_evidence();
  const auto now = SteadyClock::now();
  if (now < next_tick_) return;
  look_for_stopped_peers();
  next_tick_ = now + (stopped_.watching() ? kWatchfulTick : usual_tick());
  parts_.timeline.tick();
  if (!parts_.baton.try_take()) {
    // The holder gives it up within `kDriveLimit`; the look only comes later.
    next_tick_ = now + kBusyTick;
    return;
  }
  const Findings found = parts_.tasks.look_around(now);
  if (found.inquiring) next_tick_ = now + kBusyTick;  // the answers are told as they come
  // The rest writes to the log and to the launcher, which may block: the baton goes down first.
  parts_.tasks.settle();
  for (const std::string& line : found.lines) log(LogLevel::kWarning, "{}", line);
  if (!found.end.ok()) parts_.tasks.epoch_over(found.end);
  for (const int rank : found.silent) {
    accuse(rank, fmt::format("it has been silent for RUEDA_PEER_TIMEOUT_SECONDS ({} s)",
                             parts_.plan.settings.peer_timeout.count()));
  }
  look_for_silent_paths();
}

/// Five looks within the time that a rank of another host may be silent, and within that after which a stall is told.
std::chrono::nanoseconds Coordinator::usual_tick() const {
  const Settings& settings = parts_.plan.settings;
  std::chrono::nanoseconds tick = kTick;
  const auto look_within = [&tick](auto limit) {
    const auto part = std::chrono::duration_cast<std::chrono::nanoseconds>(limit) / 5;
    if (part.count() > 0) tick = std::min(tick, std::max(part, kBusyTick));
  };
  if (parts_.formation.transport != nullptr) look_within(settings.peer_timeout);
  if (!settings.stall_check_disable) look_within(settings.stall_check_time);
  return tick;
}

/// Tells of a rank that may be dead, or out of reach. If there is a launcher it judges; the evidence counts on its own
/// if the launcher has not answered within the grace (see `Faults`).
void Coordinator::accuse(int rank, const std::string& how) {
  if (parts_.verdicts != nullptr && !parts_.faults.has_left(rank)) parts_.verdicts->report(rank, how);
  parts_.faults.observe(rank, how);
}

/// Finds a host that is lost, or cut off, between two ranks that hear of each other by no other way than their data
/// connections: no control frames travel between them, so no heartbeat does.
void Coordinator::look_for_silent_paths() {
  const std::chrono::nanoseconds limit = in_nanoseconds(parts_.plan.settings.peer_timeout);
  Transport* const transport = parts_.formation.transport.get();
  if (transport == nullptr || limit.count() <= 0 || parts_.abort.raised()) return;
  for (const SilentPath& path : transport->silent_paths(limit)) {
    if (!path.unreachable.empty()) {
      accuse(path.rank, fmt::format("it has been out of reach for RUEDA_PEER_TIMEOUT_SECONDS ({} s): {}",
                                    parts_.plan.settings.peer_timeout.count(), path.unreachable));
      continue;
    }
    accuse(path.rank, fmt::format("its host has acknowledged nothing that rank {} sent from {} to {} for "
                                  "RUEDA_PEER_TIMEOUT_SECONDS ({} s)",
                                  parts_.plan.rank, path.from, path.to, parts_.plan.settings.peer_timeout.count()));
  }
}

/// Each accusation says for how long the rank has not run, and which setting to raise if that was meant.
void Coordinator::look_for_stopped_peers() {
  if (parts_.abort.raised()) return;
  const auto now = SteadyClock::now();
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  const double timeout = parts_.plan.settings.peer_timeout.count();
  for (const LocalPeer& peer : parts_.formation.local) {
    const uint64_t beats = peer.segment->control().beats.load();
    const StoppedPeers::Finding found = stopped_.seen(peer.rank, {process_state(peer.pidfd), beats}, now);
    if (found == StoppedPeers::Finding::kStopped) {
      accuse(peer.rank, fmt::format("it has been stopped (SIGSTOP) for {} s; if that was meant, raise "
                                    "RUEDA_PEER_TIMEOUT_SECONDS ({} s; 0: never dead)",
                                    seconds(stopped_.stopped_limit(peer.rank)), timeout));
    } else if (found == StoppedPeers::Finding::kSilent) {
      accuse(peer.rank,
             fmt::format("its process has given no sign of life for {} s: it is stopped or frozen (SIGSTOP, a "
                         "paused container, a debugger); if that was meant, raise "
                         "RUEDA_PEER_TIMEOUT_SECONDS ({} s; 0: never dead)",
                         seconds(stopped_.silent_limit(peer.rank)), timeout));
    }
  }
}

}  // namespace rueda::core
