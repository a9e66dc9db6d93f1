#include "runtime/store/store_connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <system_error>

#include "runtime/net/dial.h"
#include "runtime/net/resolve.h"

namespace rueda::core {
namespace {

constexpr std::chrono::milliseconds kFirstStorePause{5};
constexpr std::chrono::milliseconds kLongestStorePause{500};
/// One attempt's share: a host that answers nothing must not use up the time of the next address.
constexpr std::chrono::seconds kAttempt{5};

std::string address_of(const StoreLocation& where) { return where.host + ":" + std::to_string(where.port); }

/// Waits until `fd` is writable.
bool writable(int fd, Deadline deadline) {
  pollfd entry{fd, POLLOUT, 0};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left(std::chrono::hours(1)));
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) return false;
  }
}

Result<UniqueFd> dial(const SocketAddress& address, Deadline deadline) {
  auto socket = open_tcp_socket(address);
  if (!socket.ok()) return socket.status();
  const int fd = socket.value().get();
  int error = ::connect(fd, address.raw(), address.bytes) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    if (!writable(fd, deadline)) return Status(Code::kSystem, address.text() + " did not answer");
    socklen_t bytes = sizeof(error);
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  }
  if (error != 0) return Status(Code::kSystem, address.text() + ": " + std::generic_category().message(error));
  set_no_delay(fd);
  return std::move(socket).value();
}

/// One round over all addresses of the host.
Result<UniqueFd> dial_any(const StoreLocation& where, Deadline deadline) {
  const auto addresses = resolve(where.host, where.port);
  if (!addresses.ok()) return addresses.status();
  Status last(Code::kSystem, "no address");
  for (const SocketAddress& address : addresses.value()) {
    auto socket = dial(address, deadline.earlier(Deadline::after(kAttempt)));
    if (socket.ok()) return socket;
    last = socket.status();
  }
  return last;
}

/// Blocks for `pause`, at most until the deadline.
void wait_between_attempts(std::chrono::milliseconds pause, Deadline deadline) {
  boost::asio::io_context io(1);
  boost::asio::steady_timer timer(io, std::min<std::chrono::nanoseconds>(pause, deadline.left(pause)));
  timer.async_wait([](const boost::system::error_code&) {});
  io.run();
}

}  // namespace

StoreConnection::StoreConnection(UniqueFd socket, std::shared_ptr<TlsContext> tls)
    : keyed_(tls != nullptr),
      fd_(socket.get()),
      pipe_(io_, std::move(socket), std::move(tls)),
      reply_(Status(Code::kSystem, "nothing was asked")) {}

StoreConnection::~StoreConnection() = default;

Result<std::unique_ptr<StoreConnection>> StoreConnection::open(const StoreLocation& where, Deadline deadline) {
  std::shared_ptr<TlsContext> tls;
  if (where.key.present) {
    auto context = TlsContext::create(where.job, where.key.bytes);
    if (!context.ok()) return context.status();
    tls = std::move(context).value();
  }
  Status last, met;
  for (auto pause = kFirstStorePause;; pause = std::min(pause * 2, kLongestStorePause)) {
    auto socket = dial_any(where, deadline);
    last = socket.status();
    if (socket.ok()) {
      auto connection = std::unique_ptr<StoreConnection>(new StoreConnection(std::move(socket).value(), tls));
      last = connection->introduce(deadline.earlier(Deadline::after(kAttempt)));
      if (last.ok()) return connection;
      if (last.code() == Code::kSystem)
        return Status(last.code(), "store at " + address_of(where) + ": " + last.sentence());
      if (last.code() == Code::kPeerLost) met = last;
    }
    if (deadline.passed()) break;
    wait_between_attempts(pause, deadline);
  }
  const std::string sentence = "store at " + address_of(where) + " cannot be reached: ";
  if (met.ok()) return Status(Code::kTimeout, sentence + last.sentence());
  return Status(Code::kSystem,
                sentence + met.sentence() + (where.key.present ? ", each time: it may have no job key" : ""));
}

Status StoreConnection::introduce(Deadline deadline) {
  const LoopWait wait{io_, nullptr, deadline};
  RUEDA_RETURN_IF_ERROR(handshake(wait, pipe_.stream()));
  start(first_request());
  RUEDA_RETURN_IF_ERROR(wait.until([this] { return done_; }));
  if (reply_.ok()) return {};
  if (keyed_) return {Code::kPeerLost, reply_.status().sentence()};
  return {Code::kSystem, reply_.status().sentence() + "; it may ask for a job key"};
}

void StoreConnection::start(const StoreRequest& request) {
  done_ = false;
  pipe_.ask(request, [this](StoreReply reply) {
    reply_ = pipe_.broken().ok() ? Result<StoreReply>(std::move(reply)) : Result<StoreReply>(pipe_.broken());
    done_ = true;
  });
}

}  // namespace rueda::core
