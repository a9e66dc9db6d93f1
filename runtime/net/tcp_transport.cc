// The sockets of one rank in one epoch and the event loop that serves them. Life of a transport:
//
//   listen           one port on every address; connections wait in the kernel
//   configure        endpoints and key are known: the listener begins to prove whoever has come
//   connect_control  dials lower ranks, waits for higher ones
//   poll, ...        the coordinator thread's sleep, until the epoch ends
//
// The listener runs on the coordinator thread; a proven data socket goes to the loop of its lane, which another thread
// runs, through `LaneLoop::hand_over`.
#include "runtime/net/tcp_transport.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/net/dial.h"
#include "runtime/net/lane_loop.h"
#include "runtime/net/listener.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/tcp_channel.h"
#include "runtime/net/tcp_control.h"

namespace rueda::core {

namespace asio = boost::asio;

namespace {

// The kernel chooses a free port on the first address; on another address it may be taken, and a new try is due.
constexpr int kPortTries = 16;

/// How long the wait for a control connection goes on before it asks whether that rank has given up.
constexpr std::chrono::milliseconds kBetweenLooks{500};

using Watched = std::shared_ptr<asio::posix::stream_descriptor>;

Result<std::vector<UniqueFd>> listen_with_one_port(const std::vector<std::string>& addresses) {
  Status last(Code::kInvalidArgument, "no address to listen on");
  for (int attempt = 0; attempt < kPortTries; ++attempt) {
    std::vector<UniqueFd> sockets;
    uint16_t port = 0;
    for (const std::string& numeric : addresses) {
      const auto address = SocketAddress::parse(numeric, port);
      if (!address.ok()) return address.status();
      auto socket = listen_on(address.value());
      last = socket.status();
      if (!socket.ok()) break;
      sockets.push_back(std::move(socket).value());
      const auto bound = bound_port(sockets.back().get());
      if (!bound.ok()) return bound.status();
      port = bound.value();
    }
    if (!sockets.empty() && sockets.size() == addresses.size()) return sockets;
    if (sockets.empty()) return last;
  }
  return last;
}

}  // namespace

/// Everything but `lanes` belongs to the coordinator thread.
struct TcpTransport::State {
  std::vector<std::string> addresses;
  uint16_t port = 0;
  std::vector<UniqueFd> sockets;  // until `configure`
  TransportEpoch epoch;
  std::shared_ptr<TlsContext> tls;
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> guard{io.get_executor()};
  std::unique_ptr<Listener> listener;
  std::map<int, std::shared_ptr<ControlConnection>> controls;
  std::map<int, Watched> watches;
  PathWatch paths;
  Mutex mutex;
  std::map<uint32_t, std::shared_ptr<LaneLoop>> lanes RUEDA_GUARDED_BY(mutex);

  std::shared_ptr<LaneLoop> lane(uint32_t number) RUEDA_EXCLUDES(mutex) {
    MutexLock lock(mutex);
    const auto found = lanes.find(number);
    if (found != lanes.end()) return found->second;
    return lanes.emplace(number, std::make_shared<LaneLoop>()).first->second;
  }

  void add_control(int rank, std::unique_ptr<SecureStream> stream) {
    auto connection = std::make_shared<ControlConnection>(io, std::move(stream), epoch.name_of(rank), rank);
    auto& current = controls[rank];
    // The dialler uses the newest only: it dials again if it did not hear that an earlier one was accepted.
    if (current != nullptr) current->stop();
    current = connection;
    connection->start();
  }

  Status connect(std::span<const int> ranks, const LoopWait& wait, const std::function<Status(int)>& given_up);
  /// Why the listener can let nobody in, or ok.
  Status fault() const { return listener == nullptr ? Status() : listener->fault(); }

  void watch_again(int fd, const Watched& descriptor, const std::function<void()>& on_ready) {
    descriptor->async_wait(asio::posix::descriptor_base::wait_read, [this, fd, weak = std::weak_ptr(descriptor),
                                                                     on_ready](const boost::system::error_code& error) {
      if (error || weak.expired()) return;
      on_ready();  // it may unwatch the descriptor, or even watch it anew
      if (const Watched same = weak.lock()) watch_again(fd, same, on_ready);
    });
  }

  void unwatch(int fd) {
    const auto found = watches.find(fd);
    if (found == watches.end()) return;
    found->second->release();  // cancels the wait and leaves the descriptor open
    watches.erase(found);
  }
};

TcpTransport::TcpTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}

TcpTransport::~TcpTransport() {
  for (auto& [rank, connection] : state_->controls) connection->stop();
  while (!state_->watches.empty()) state_->unwatch(state_->watches.begin()->first);
}

Result<std::unique_ptr<TcpTransport>> TcpTransport::listen(const std::vector<std::string>& addresses) try {
  auto sockets = listen_with_one_port(addresses);
  if (!sockets.ok()) return sockets.status();
  const auto port = bound_port(sockets.value().front().get());
  if (!port.ok()) return port.status();
  auto state = std::make_unique<State>();
  state->addresses = addresses;
  state->port = port.value();
  state->sockets = std::move(sockets).value();
  return std::unique_ptr<TcpTransport>(new TcpTransport(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, std::string("cannot make an event loop: ") + error.what());
}

uint16_t TcpTransport::port() const { return state_->port; }
const std::vector<std::string>& TcpTransport::addresses() const { return state_->addresses; }

Status TcpTransport::configure(TransportEpoch epoch) {
  state_->epoch = std::move(epoch);
  if (state_->epoch.keyed) {
    auto tls = TlsContext::create(state_->epoch.job, state_->epoch.key);
    if (!tls.ok()) return tls.status();
    state_->tls = tls.value();
  }
  Listener::Handlers handlers;
  handlers.control = [state = state_.get()](int rank, std::unique_ptr<SecureStream> stream) {
    state->add_control(rank, std::move(stream));
  };
  handlers.data = [state = state_.get()](int rank, uint32_t number, DataSocket made) {
    const uint32_t socket = number / kMostLanes;  // a proven peer may still send a wrong number
    if (socket < kMostSocketsPerPeer) state->lane(number % kMostLanes)->hand_over(rank, socket, std::move(made));
  };
  state_->listener = std::make_unique<Listener>(state_->io, std::move(state_->sockets), state_->epoch, state_->tls,
                                                std::move(handlers));
  return {};
}

Status TcpTransport::fault() const { return state_->fault(); }

Status TcpTransport::connect_control(std::span<const int> ranks, Deadline deadline,
                                     const std::function<Status(int)>& given_up, const Cutoff* cutoff) {
  if (cutoff == nullptr) return state_->connect(ranks, {state_->io, nullptr, deadline}, given_up);
  watch(cutoff->fd(), [] {});  // it only has to wake the loop
  Status connected = state_->connect(ranks, {state_->io, &cutoff->abort(), deadline}, given_up);
  unwatch(cutoff->fd());
  return connected;
}

Status TcpTransport::State::connect(std::span<const int> ranks, const LoopWait& wait,
                                    const std::function<Status(int)>& given_up) {
  // The loop runs while this rank dials, so it accepts higher ranks meanwhile and no cycle of dials can stall.
  for (const int rank : ranks) {
    if (rank >= epoch.rank) continue;
    auto stream = dial(wait, epoch, rank, HelloPurpose::kControl, 0, tls);
    if (!stream.ok()) return stream.status();
    add_control(rank, std::move(stream).value());
  }
  const auto missing = [&](int rank) { return controls.count(rank) == 0; };
  const auto over = [&] { return std::none_of(ranks.begin(), ranks.end(), missing) || !fault().ok(); };
  for (;;) {
    Status waited = wait.within(kBetweenLooks).until(over);
    RUEDA_RETURN_IF_ERROR(fault());
    if (waited.code() != Code::kTimeout) return waited;
    if (wait.deadline.passed()) break;
    for (const int rank : ranks) {
      if (missing(rank)) RUEDA_RETURN_IF_ERROR(given_up(rank));
    }
  }
  std::string names;
  for (const int rank : ranks) {
    if (missing(rank)) names += (names.empty() ? "" : ", ") + epoch.name_of(rank);
  }
  return Status(Code::kTimeout, "rank " + std::to_string(epoch.rank) + " waited at port " + std::to_string(port) +
                                    " for control connections that never came from " + names);
}

std::unique_ptr<ControlLink> TcpTransport::control_link(int rank) {
  const auto found = state_->controls.find(rank);
  return found == state_->controls.end() ? nullptr : std::make_unique<TcpControlLink>(found->second);
}

std::unique_ptr<ChannelSet> TcpTransport::channel_set(int lane, const Abort& abort) {
  const auto number = static_cast<uint32_t>(lane);
  return std::make_unique<TcpChannelSet>(state_->lane(number), number, state_->epoch, state_->paths, abort);
}

void TcpTransport::wake_all() {
  std::vector<std::shared_ptr<LaneLoop>> lanes;
  {
    MutexLock lock(state_->mutex);
    for (const auto& [number, loop] : state_->lanes) lanes.push_back(loop);
  }
  for (const auto& loop : lanes) loop->wake();
}

void TcpTransport::poll(std::chrono::nanoseconds limit) {
  // Without time `run_one_for` does not even look.
  if (limit.count() <= 0 || state_->io.run_one_for(limit) != 0) state_->io.poll();
}

void TcpTransport::watch(int fd, std::function<void()> on_ready) {
  unwatch(fd);
  const auto descriptor = std::make_shared<asio::posix::stream_descriptor>(state_->io, fd);
  state_->watches[fd] = descriptor;
  state_->watch_again(fd, descriptor, on_ready);
}

void TcpTransport::unwatch(int fd) { state_->unwatch(fd); }

std::vector<SilentPath> TcpTransport::silent_paths(std::chrono::nanoseconds limit) {
  return state_->paths.silent(SteadyClock::now(), limit);
}

}  // namespace rueda::core
