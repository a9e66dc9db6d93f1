// Accepts on every port of the rank. `accept` can fail in three ways, and each needs another answer.
//
// Without a descriptor or memory for it the connection stays in the kernel's queue, so trying at once would spin: the
// port pauses. The dialler believes that it is connected, so only this rank can say what is wrong, and after some
// pauses in a row it does (`fault`).
//
// A connection may also have failed before `accept` took it (accept(2)). The next one may be fine, so the port tries at
// once, but not for ever, because the kernel may leave the error in the queue.
//
// If none is waiting, the port waits for the next.
#include "runtime/net/listener.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"
#include "runtime/net/newcomer.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

namespace asio = boost::asio;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr size_t kMostPending = 64;
constexpr auto kAcceptPause = 100ms;
/// So many pauses in a row make a fault: half a second.
constexpr int kMostPauses = 5;
/// So many errors of connections in a row make a pause.
constexpr int kMostFailures = 64;

bool for_want_of_descriptors(int error) { return error == EMFILE || error == ENFILE; }
bool for_want_of_memory(int error) { return error == ENOBUFS || error == ENOMEM; }

}  // namespace

struct Listener::Port {
  Port(asio::io_context& io, UniqueFd fd) : descriptor(io, fd.release()), pause(io) {}
  asio::posix::stream_descriptor descriptor;
  asio::steady_timer pause;
  int pauses = 0;  ///< in a row
};

Listener::Listener(asio::io_context& io, std::vector<UniqueFd> sockets, const TransportEpoch& epoch,
                   std::shared_ptr<TlsContext> tls, Handlers handlers)
    : io_(io),
      epoch_(epoch),
      tls_(std::move(tls)),
      handlers_(std::move(handlers)),
      alive_(std::make_shared<bool>(true)) {
  refill_reserve();
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
  refill_reserve();
  for (int failures = 0;;) {
    UniqueFd fd(::accept4(port.descriptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const int error = errno;
    if (fd.valid()) {
      failures = port.pauses = 0;
      admit(std::move(fd));
      continue;
    }
    if (for_want_of_descriptors(error) && reserve_.valid()) {
      reserve_.reset();
      continue;
    }
    if (error == EAGAIN || error == EWOULDBLOCK) {
      port.pauses = 0;
      return accept_next(port);
    }
    if (for_want_of_descriptors(error) || for_want_of_memory(error)) return rest(port, error);
    if (++failures == kMostFailures) return rest(port, error);
  }
}

void Listener::rest(Port& port, int error) {
  if (++port.pauses == kMostPauses && fault_.ok()) {
    fault_ = Status(Code::kSystem,
                    epoch_.name_of(epoch_.rank) + " cannot accept a connection of another rank: " + reason_of(error),
                    epoch_.rank);
  }
  port.pause.expires_after(kAcceptPause);
  port.pause.async_wait([this, alive = alive_, &port](const error_code& stopped) {
    if (stopped || !*alive) return;
    drop_oldest();
    accept_next(port);
  });
}

/// A peer has proven itself long before a pause is over, unless the machine is very busy: then it dials again.
void Listener::drop_oldest() {
  if (!newcomers_.empty()) newcomers_.pop_front();
  refill_reserve();
}

/// With what is cheapest to open.
void Listener::refill_reserve() {
  if (!reserve_.valid()) reserve_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
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
  std::unique_ptr<Newcomer> owned = std::move(*found);
  newcomers_.erase(found);
  const Status handed = status.ok() ? hand_over(*owned) : status;
  owned.reset();  // closes the connection of a stranger
  refill_reserve();
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
