// Accepts on every port of the rank. An `accept` that fails for want of descriptors or memory pauses that port: the
// connection stays in the kernel's queue, so that trying at once would spin.
#include "runtime/net/listener.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/net/newcomer.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr size_t kMostPending = 64;
constexpr auto kAcceptPause = 100ms;

}  // namespace

struct Listener::Port {
  Port(asio::io_context& io, UniqueFd fd) : descriptor(io, fd.release()), pause(io) {}
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer pause;
};

Listener::Listener(asio::io_context& io, std::vector<UniqueFd> sockets, const TransportEpoch& epoch,
                   std::shared_ptr<TlsContext> tls, Handlers handlers)
    : io_(io),
      epoch_(epoch),
      tls_(std::move(tls)),
      handlers_(std::move(handlers)),
      alive_(std::make_shared<bool>(true)) {
  for (UniqueFd& socket : sockets) {
    ports_.push_back(std::make_unique<Port>(io_, std::move(socket)));
    accept_next(*ports_.back());
  }
}

Listener::~Listener() { *alive_ = false; }

void Listener::accept_next(Port& port) {
  port.descriptor.async_wait(asio::posix::descriptor_base::wait_read,
                             [this, alive = alive_, &port](const error_code& error) {
                               if (!error && *alive) accept_all(port);
                             });
}

void Listener::accept_all(Port& port) {
  for (;;) {
    UniqueFd fd(::accept4(port.descriptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      admit(std::move(fd));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) break;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      accept_next(port);
      return;
    }
    // Otherwise the connection itself failed before `accept` took it (accept(2)): the next one may be fine.
  }
  port.pause.expires_after(kAcceptPause);
  port.pause.async_wait([this, alive = alive_, &port](const error_code& error) {
    if (!error && *alive) accept_next(port);
  });
}

void Listener::admit(UniqueFd fd) {
  set_no_delay(fd.get());
  if (newcomers_.size() == kMostPending) {
    const auto silent =
        std::find_if(newcomers_.begin(), newcomers_.end(), [](const auto& one) { return one->silent(); });
    newcomers_.erase(silent == newcomers_.end() ? newcomers_.begin() : silent);
  }
  newcomers_.push_back(std::make_unique<Newcomer>(io_, std::move(fd), epoch_.hello_scope(), tls_));
  newcomers_.back()->start([this](Newcomer& newcomer, const Status& status) { finish(newcomer, status); });
}

void Listener::finish(Newcomer& newcomer, const Status& status) {
  const auto found =
      std::find_if(newcomers_.begin(), newcomers_.end(), [&](const auto& one) { return one.get() == &newcomer; });
  const std::unique_ptr<Newcomer> owned = std::move(*found);
  newcomers_.erase(found);
  const Status handed = status.ok() ? hand_over(*owned) : status;
  if (!handed.ok())
    log(LogLevel::kDebug, "rank {} dropped a connection to its port: {}", epoch_.rank, handed.sentence());
}

Status Listener::hand_over(Newcomer& newcomer) {
  const HelloRoute route = newcomer.route();
  if (route.purpose == HelloPurpose::kControl) {
    handlers_.control(route.dialler, newcomer.take_stream());
    return {};
  }
  DataSocket socket;
  if (epoch_.keyed && epoch_.encrypt_data) {
    const auto key = newcomer.stream_key();
    if (!key.ok()) return key.status();
    auto tls = TlsContext::create(epoch_.job, key.value());
    if (!tls.ok()) return tls.status();
    socket.tls = std::move(tls).value();
  }
  socket.fd = newcomer.take_stream()->release();
  handlers_.data(route.dialler, route.number, std::move(socket));
  return {};
}

}  // namespace rueda::core
