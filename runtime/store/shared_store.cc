#include "runtime/store/shared_store.h"

#include <poll.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/base/wire.h"
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
/// The name may be another's just now, and free again when it is dialled.
constexpr int kAttempts = 100;
/// Longer than a relay takes to answer, or it is none.
constexpr std::chrono::seconds kRelayAnswers{10};
/// How long a process that relayed stays for the others, as it may end next.
constexpr std::chrono::seconds kStaysForOthers{2};
constexpr std::chrono::milliseconds kPauseOfRelay{100};

/// Abstract, so it lasts as long as its process. Somebody else's of the same name is found out by the key.
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

/// Tells whoever connects to a name where the relay is, and ends with the last of them, its owner's own end included.
/// Its thread keeps it alive.
class HostRelay : public std::enable_shared_from_this<HostRelay> {
 public:
  HostRelay(UniqueFd name, std::unique_ptr<StoreRelay> relay)
      : relay_(std::move(relay)), port_(relay_->port()), name_(std::in_place, io_, std::move(name)) {}

  void start() {
    accept();
    std::thread([self = shared_from_this()] { run_store_loop(self->io_); }).detach();
  }
  uint16_t port() const { return port_; }
  /// The owner has no more to ask. Waits a moment for the others.
  void leave() {
    asio::post(io_, [this] {
      left_ = true;
      end_if_unused();
    });
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
        if (check_same_user(came.fd.get()).ok()) welcome(std::move(came.fd));
      }
      if (came.error == EAGAIN) return accept();
      pause_.expires_after(kPauseOfRelay);  // for want of descriptors
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

  /// Those who connect meanwhile and were not told try again, and one of them is the next to relay.
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
  /// `own`: the relay that this process runs, or null; else `token` says to another's that it is used.
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
    const auto sum = client_->add(key, amount);
    if (!sum.ok()) return explained(sum.status());
    return sum;
  }

 private:
  Status explained(const Status& status) const {
    if (own_ || !client_->broken()) return status;
    return {status.code(), status.sentence() + "; it led through another rank of this host, which has ended"};
  }

  UniqueFd token_;
  std::shared_ptr<HostRelay> own_;
  std::unique_ptr<StoreClient> client_;
};

/// Where the relay behind `connection` is; empty: it ended, or does not say by the deadline.
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
  own->start();
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
  for (int attempt = 0; attempt < kAttempts && !deadline.passed(); ++attempt) {
    DialledSocket relay = dial_abstract(name);
    if (!relay.fd.valid()) {
      if (relay.error != ECONNREFUSED) break;  // more at once than a name takes
      auto own = listen_abstract(name);
      if (own.ok()) return lead(where, std::move(own).value(), deadline);
      continue;  // another one was first
    }
    if (!check_same_user(relay.fd.get()).ok()) break;
    const auto port = told_port(relay.fd.get(), deadline);
    if (!port) continue;
    auto client =
        StoreClient::connect({kHere, *port, where.job, where.key}, deadline.earlier(Deadline::after(kRelayAnswers)));
    if (!client.ok()) break;
    return std::unique_ptr<Store>(new SharedStore(std::move(client).value(), nullptr, std::move(relay.fd)));
  }
  return open_own_store(where, deadline);
}

}  // namespace rueda::core
