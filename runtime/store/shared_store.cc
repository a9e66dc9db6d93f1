// One connection to rank 0's store for all ranks of a host. The ranks elect a relay by binding an abstract Unix name:
//
//   dial the name ─ nobody listens ─▶ bind it ─▶ connect to the store, relay it at a port of 127.0.0.1, tell the port
//         │                             └─ another rank was first: dial again
//         └─ connected ─▶ read the port ─▶ connect there; keep the socket as a token for as long as the relay is used
//
// The relay ends once its owner has left and no token is open. An abstract name vanishes with its process, so a relay
// that dies leaves nothing that must be removed. Every path that fails ends in a connection of the rank's own.
#include "runtime/store/shared_store.h"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/base/shortage.h"
#include "runtime/base/thread.h"
#include "runtime/base/wire.h"
#include "runtime/net/loop_wait.h"
#include "runtime/net/unix_socket.h"
#include "runtime/store/job_key.h"
#include "runtime/store/store_listener.h"
#include "runtime/store/store_relay.h"

namespace rueda::core {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;

constexpr const char* kHere = "127.0.0.1";
constexpr size_t kPortBytes = 2;
/// Longer than a relay takes to answer. A listener that is silent for longer is not a relay.
constexpr std::chrono::seconds kRelayAnswers{10};
/// Longer than a rank takes from binding the name to listening at it. A name that is only bound for longer is not a
/// relay's.
constexpr std::chrono::seconds kRelayListens{2};
constexpr int kPollMilliseconds = 1;
/// After so many relays that have ended before they told a port, a rank connects by itself.
constexpr int kMostEnds = 100;
/// How long the owner of a relay waits for the ranks that still use it: its process may end right afterwards.
constexpr std::chrono::seconds kStaysForOthers{2};
constexpr std::chrono::milliseconds kPauseOfRelay{100};

/// Any process can bind an abstract name. So the name depends on the job's key, and the relay behind it proves the key.
std::string relay_name(const StoreLocation& where) {
  const std::string about = where.job + " at " + where.host + ":" + std::to_string(where.port);
  return "rueda-store-" + std::to_string(::geteuid()) + "-" + key_mark(where.key, about);
}

/// A descriptor that a loop watches, and a forked child closes.
struct WatchedName {
  WatchedName(asio::io_context& io, UniqueFd owned) : fd(std::move(owned)), watch(io, fd.get()) {}
  ~WatchedName() { watch.release(); }
  WatchedName(const WatchedName&) = delete;
  WatchedName& operator=(const WatchedName&) = delete;
  UniqueFd fd;
  stream_descriptor watch;
};

/// Tells every process that connects to the name where the relay is, and ends once its owner and all of them have left.
/// Its thread keeps it alive.
class HostRelay : public std::enable_shared_from_this<HostRelay> {
 public:
  HostRelay(UniqueFd name, std::unique_ptr<StoreRelay> relay)
      : relay_(std::move(relay)), port_(relay_->port()), name_(std::in_place, io_, std::move(name)) {}

  /// Returns kSystem if the system gives no thread.
  Status start() {
    std::thread thread;
    RUEDA_RETURN_IF_ERROR(
        start_thread(thread, "of a host's store relay", [self = shared_from_this()] { run_loop(self->io_, "store"); }));
    thread.detach();
    asio::post(io_, [this] { accept(); });
    return {};
  }
  uint16_t port() const { return port_; }
  /// The owner asks no more. Waits a moment for the other processes. Without memory to say so the relay stays up for as
  /// long as its process.
  void leave() noexcept {
    try {
      asio::post(io_, [this] {
        left_ = true;
        end_if_unused();
      });
    } catch (const std::exception&) {
      return;
    }
    const Deadline limit = Deadline::after(kStaysForOthers);
    MutexLock lock(mutex_);
    while (!ended_ && !limit.passed()) changed_.wait_for(mutex_, limit.left(kStaysForOthers));
  }

 private:
  void accept() {
    name_->watch.async_wait(stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      const int name = name_->fd.get();
      AcceptedSocket came = accept_one(name);
      for (; came.fd.valid(); came = accept_one(name)) {
        if (!check_same_user(came.fd.get()).ok()) continue;
        try {
          welcome(std::move(came.fd));
        } catch (const std::exception&) {  // without memory for it the process is on its own; others are still welcome
        }
      }
      if (came.error == EAGAIN) return accept();
      // accept failed for lack of descriptors; the connection still waits, so an immediate retry would spin.
      pause_.expires_after(kPauseOfRelay);
      pause_.async_wait([this](const boost::system::error_code& stopped) {
        if (!stopped && name_) accept();
      });
    });
  }

  void welcome(UniqueFd client) {
    WireWriter port;
    port.u16(port_);
    send_packet(client.get(), port.view());
    const uint64_t number = ++clients_seen_;
    const auto watched = clients_.try_emplace(number, io_, std::move(client)).first;
    watched->second.watch.async_wait(stream_descriptor::wait_read,
                                     [this, number](const boost::system::error_code& error) {
                                       if (error) return;
                                       clients_.erase(number);
                                       end_if_unused();
                                     });
  }

  /// A process that connects meanwhile sees the end before a port, dials again and may become the next relay.
  void end_if_unused() {
    if (!left_ || !clients_.empty()) return;
    name_.reset();
    relay_.reset();
    io_.stop();
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  asio::io_context io_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> guard_{io_.get_executor()};
  std::unique_ptr<StoreRelay> relay_;
  const uint16_t port_;
  std::optional<WatchedName> name_;
  asio::steady_timer pause_{io_};
  std::map<uint64_t, WatchedName> clients_;
  uint64_t clients_seen_ = 0;
  bool left_ = false;
  Mutex mutex_;
  Condition changed_;
  bool ended_ RUEDA_GUARDED_BY(mutex_) = false;
};

class SharedStore : public Store {
 public:
  /// `own` is the relay that this process runs, or null; then `token` shows another process's relay that it is in use.
  SharedStore(std::unique_ptr<StoreClient> client, std::shared_ptr<HostRelay> own, UniqueFd token)
      : token_(std::move(token)), own_(std::move(own)), client_(std::move(client)) {}
  ~SharedStore() override {
    client_.reset();
    if (own_) own_->leave();
  }
  Status set(std::string_view key, std::string_view value) override { return explained(client_->set(key, value)); }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    auto value = client_->get(key, deadline);
    if (!value.ok()) return explained(value.status());
    return value;
  }
  Result<int64_t> add(std::string_view key, int64_t amount) override {
    auto sum = client_->add(key, amount);
    if (!sum.ok()) return explained(sum.status());
    return sum;
  }
  Status remove(std::string_view key) override { return explained(client_->remove(key)); }

 private:
  Status explained(const Status& status) const {
    if (own_ || !client_->broken()) return status;
    return {status.code(), status.sentence() + "; another rank of this host relayed the store and has ended"};
  }

  UniqueFd token_;
  std::shared_ptr<HostRelay> own_;
  std::unique_ptr<StoreClient> client_;
};

/// Returns the port of the relay behind `connection`; empty if it ended or does not tell by the deadline.
std::optional<uint16_t> told_port(int connection, Deadline deadline) {
  for (;;) {
    const Packet packet = receive_packet(connection, kPortBytes, 0);
    if (packet.kind == PacketKind::kEnd) return std::nullopt;
    if (packet.kind == PacketKind::kPacket) {
      WireReader reader(packet.bytes);
      const uint16_t port = reader.u16();
      return reader.finished() ? std::optional(port) : std::nullopt;
    }
    if (deadline.passed()) return std::nullopt;
    pollfd entry{connection, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(std::chrono::hours(1)));
    ::poll(&entry, 1, static_cast<int>(left.count()));
  }
}

Result<std::unique_ptr<Store>> lead(const StoreLocation& where, UniqueFd name, Deadline deadline) {
  auto relay = StoreRelay::start(where, {kHere}, "a rank of this host", deadline);
  if (!relay.ok()) return relay.status();
  const auto own = std::make_shared<HostRelay>(std::move(name), std::move(relay).value());
  RUEDA_RETURN_IF_ERROR(own->start());
  auto client = StoreClient::connect({kHere, own->port(), where.job, where.key}, Deadline::after(kRelayAnswers));
  if (client.ok()) return std::unique_ptr<Store>(new SharedStore(std::move(client).value(), own, {}));
  own->leave();
  return client.status();
}

}  // namespace

Result<std::unique_ptr<Store>> open_own_store(const StoreLocation& where, Deadline deadline) {
  auto client = StoreClient::connect(where, deadline);
  if (!client.ok()) return client.status();
  return std::unique_ptr<Store>(std::move(client).value());
}

Result<std::unique_ptr<Store>> open_shared_store(const StoreLocation& where, Deadline deadline) {
  const std::string name = relay_name(where);
  Deadline listens = Deadline::never();  // a limit only while the name is bound and nobody listens
  for (int ends = 0; ends < kMostEnds && !deadline.passed();) {
    DialledSocket relay = dial_abstract(name);
    if (relay.error == EMFILE || relay.error == ENFILE) {
      return Status(Code::kSystem, "the store of this host: " + reason_of(relay.error));
    }
    if (!relay.fd.valid()) {
      if (relay.error != ECONNREFUSED) break;  // the listener's queue is full
      ListeningSocket own = try_to_listen_abstract(name);
      if (own.fd.valid()) return lead(where, std::move(own.fd), deadline);
      // Another rank was first, and does not listen yet, or not any more. It may need this core for a moment.
      if (listens.is_never()) listens = Deadline::after(kRelayListens);
      if (own.error != EADDRINUSE || listens.passed()) break;
      ::poll(nullptr, 0, kPollMilliseconds);  // the kernel tells nobody when a socket begins to listen
      continue;
    }
    listens = Deadline::never();
    if (!check_same_user(relay.fd.get()).ok()) break;
    const auto port = told_port(relay.fd.get(), deadline);
    if (!port) {
      ++ends;
      continue;
    }
    auto client =
        StoreClient::connect({kHere, *port, where.job, where.key}, deadline.earlier(Deadline::after(kRelayAnswers)));
    if (!client.ok()) break;
    return std::unique_ptr<Store>(new SharedStore(std::move(client).value(), nullptr, std::move(relay.fd)));
  }
  return open_own_store(where, deadline);
}

}  // namespace rueda::core
