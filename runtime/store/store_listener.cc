// Lets clients of a store in and keeps strangers out of the way. A connection is first a stranger and becomes a client
// with its first whole request, which with a key proves the key:
//
//   accept ─▶ session, unproven: few at a time, a short time each, the oldest goes first ─▶ proven: many, for ever
//
// Sessions end through a posted call, never inside their own callbacks. Handlers hold a weak reference to the
// listener's life: the loop outlives the listener and may still run what was posted before.
#include "runtime/store/store_listener.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/net/resolve.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kStoreAcceptPause{100};
/// So many pauses in a row make a fault: half a second.
constexpr int kMostAcceptPauses = 5;

/// The kernel chooses a free port on the first address; on another address it may be taken, and a new try is due.
constexpr int kListenTries = 16;

/// Listens on the first address of the name that this machine has.
Result<UniqueFd> listen_at(const std::string& name, uint16_t port) {
  const auto addresses = resolve(name, port);
  if (!addresses.ok()) return Status(Code::kInvalidArgument, "store: " + addresses.status().sentence());
  Status last;
  for (const SocketAddress& address : addresses.value()) {
    auto socket = listen_on(address);
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

Result<int> family_of(int fd) {
  int family = AF_INET;
  socklen_t bytes = sizeof(family);
  if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &bytes) == 0) return family;
  return Status(Code::kSystem, "store: getsockopt: " + reason_of(errno));
}

}  // namespace

Result<std::unique_ptr<StoreListener>> StoreListener::start(asio::io_context& io, StoreDesk& desk,
                                                            const StoreListenOptions& options) {
  std::unique_ptr<StoreListener> listener(new StoreListener(io, desk, options));
  if (options.key.present) {
    auto tls = TlsContext::create(options.job, options.key.bytes);
    if (!tls.ok()) return tls.status();
    listener->tls_ = std::move(tls).value();
  }
  RUEDA_RETURN_IF_ERROR(listener->listen());
  for (Port& port : listener->ports_) listener->accept(port);
  return listener;
}

StoreListener::~StoreListener() {
  boost::system::error_code ignored;
  for (Port& port : ports_) {
    keep_in_child(port.acceptor.native_handle());
    port.acceptor.close(ignored);
  }
}

/// Listens on all addresses, with the port that the first of them got.
Result<std::vector<UniqueFd>> StoreListener::listen_once() {
  std::vector<UniqueFd> sockets;
  port_ = options_.port;
  for (const std::string& name : options_.addresses) {
    auto socket = listen_at(name, port_);
    if (!socket.ok()) return socket.status();
    sockets.push_back(std::move(socket).value());
    const auto bound = bound_port(sockets.back().get());
    if (!bound.ok()) return bound.status();
    port_ = bound.value();
  }
  return sockets;
}

Status StoreListener::listen() {
  auto sockets = listen_once();
  const int tries = options_.port == 0 && options_.addresses.size() > 1 ? kListenTries : 1;
  for (int attempt = 1; !sockets.ok() && attempt < tries; ++attempt) sockets = listen_once();
  if (!sockets.ok()) return sockets.status();
  for (UniqueFd& socket : sockets.value()) {
    const auto family = family_of(socket.get());
    if (!family.ok()) return family.status();
    boost::system::error_code error;
    Port& made = ports_.emplace_back(io_);
    made.acceptor.assign(family.value() == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), error);
    if (error) return {Code::kSystem, "store: cannot accept on port " + std::to_string(port_) + ": " + error.message()};
    close_in_child(socket.release());
  }
  return {};
}

void StoreListener::accept(Port& from) {
  from.acceptor.async_accept(
      [this, &from, alive = std::weak_ptr<int>(alive_)](const boost::system::error_code& error, tcp::socket socket) {
        if (error == asio::error::operation_aborted || alive.expired()) return;
        if (!error) {
          boost::system::error_code refused;
          const int fd = socket.release(refused);
          from.pauses = 0;
          fault_ = {};
          accept(from);  // before anything that may throw
          if (!refused) adopt(UniqueFd(fd));
          return;
        }
        accept_later(from, error);
      });
}

/// For want of descriptors, mostly; the connection still waits, so an immediate retry would spin.
void StoreListener::accept_later(Port& from, const boost::system::error_code& error) {
  if (from.pauses == 0) {
    log(LogLevel::kWarning, "store: accept on port {} failed: {}; trying again every 100 ms", port_,
        reason_of(error.value()));
  }
  if (++from.pauses >= kMostAcceptPauses) {
    fault_ = Status(Code::kSystem, "the store on port " + std::to_string(port_) +
                                       " can accept no connection: " + reason_of(error.value()));
  }
  from.pause.expires_after(kStoreAcceptPause);
  from.pause.async_wait([this, &from, alive = std::weak_ptr<int>(alive_)](const boost::system::error_code& stopped) {
    if (!stopped && !alive.expired()) accept(from);
  });
}

void StoreListener::adopt(UniqueFd socket) {
  if (std::exchange(some_are_over_, false)) {
    std::erase_if(sessions_, [](const auto& each) { return each.second->over(); });
  }
  if (sessions_.size() >= options_.max_sessions) return;
  drop_oldest_unproven();
  set_no_delay(socket.get());
  const uint64_t number = next_session_++;
  // Without a key there is nothing to prove, and a dropped client does not dial again; so it gets the longer time.
  const auto proof = options_.key.present ? options_.proof : options_.silence;
  const auto ended = [this, number, from = peer_address(socket.get()), alive = std::weak_ptr<int>(alive_)] {
    try {
      asio::post(io_, [this, number, from, alive] {
        if (alive.expired()) return;
        const auto found = sessions_.find(number);
        if (found == sessions_.end()) return;
        note_end(*found->second, from);
        sessions_.erase(found);
      });
    } catch (const std::exception&) {  // no memory: the session goes when the next client comes
      if (!alive.expired()) some_are_over_ = true;
    }
  };
  auto session = std::make_shared<StoreSession>(io_, std::move(socket), tls_, desk_,
                                                StoreSession::Rules{proof, options_.silence}, ended);
  sessions_.emplace(number, session);
  session->start();
}

void StoreListener::note_end(const StoreSession& session, const std::string& from) {
  if (session.proven()) return;
  ++turned_away_;
  last_turned_away_ = from;
}

std::string StoreListener::turned_away() const {
  if (turned_away_ == 0) return {};
  return std::to_string(turned_away_) + (turned_away_ == 1 ? " connection" : " connections") +
         " to this rank's store " +
         (options_.key.present
              ? "proved no knowledge of the job's key"
              : "sent no readable request; their ranks may have a job key, which this one does not have") +
         "; the last came from " + last_turned_away_;
}

/// Strangers only drive out strangers: a proven client stays however many come.
void StoreListener::drop_oldest_unproven() {
  size_t unproven = 0;
  auto oldest = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->second->proven()) continue;
    if (unproven++ == 0) oldest = it;
  }
  if (unproven >= options_.max_unproven) sessions_.erase(oldest);
}

}  // namespace rueda::core
