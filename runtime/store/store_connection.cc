// Connects to a store that may not be up yet, and tells apart why it fails:
//
//   no address answers            the server may still start              again, until the deadline (kTimeout)
//   the handshake fails           the server has another key              at once (kSystem)
//   the stream ends before an     with a key: the server was crowded      again; kSystem at the deadline
//   answer to the first request   without: it may want a key              at once (kSystem)
//   rank 0 says it cannot serve   another program has the port            at once (kSystem)
//
// A connection counts as made once the first request has its answer. Before that a crowded server may drop it.
#include "runtime/store/store_connection.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>

#include "runtime/base/shortage.h"
#include "runtime/net/connect.h"
#include "runtime/net/dial.h"
#include "runtime/net/resolve.h"
#include "runtime/store/store_notice.h"

namespace rueda::core {
namespace {

constexpr std::chrono::milliseconds kFirstStorePause{5};
constexpr std::chrono::milliseconds kLongestStorePause{500};
/// The share of one attempt: after it the name is resolved again and every address gets a fresh connection.
constexpr std::chrono::seconds kAttempt{5};
/// The first wait for an answer if a notice may come meanwhile; doubles with each attempt.
constexpr std::chrono::milliseconds kFirstPatience{500};

std::string address_of(const StoreLocation& where) { return where.host + ":" + std::to_string(where.port); }

/// One round over all addresses of the host. It resolves the name anew each time: the name may become known late. A
/// round that the deadline cuts off learns nothing; the cause is then that of the round `before`.
Result<UniqueFd> dial_any(const StoreLocation& where, Deadline deadline, const Status& before) {
  const auto addresses = resolve(where.host, where.port);
  if (!addresses.ok()) return addresses.status();
  ConnectFailures failures;
  auto connected = connect_first(addresses.value(), deadline.earlier(Deadline::after(kAttempt)), failures);
  if (connected.ok()) return std::move(connected).value().fd;
  const auto silent = [](const std::string& reason) { return reason.empty(); };
  if (!before.ok() && std::all_of(failures.reasons.begin(), failures.reasons.end(), silent)) return before;
  return Status(connected.status().code(), failures.text(addresses.value()));
}

/// Blocks for `pause`, at most until the deadline. Growing pauses keep thousands of early ranks from flooding a host.
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
      reply_(Status(Code::kSystem, "no request was sent")) {}

StoreConnection::~StoreConnection() = default;

Result<std::unique_ptr<StoreConnection>> StoreConnection::open(const StoreLocation& where, Deadline deadline) {
  std::shared_ptr<TlsContext> tls;
  if (where.key.present) {
    auto context = TlsContext::create(where.job, where.key.bytes);
    if (!context.ok()) return context.status();
    tls = std::move(context).value();
  }
  Status last, met;  // the last failure; the last one of a server that was there
  auto patience = where.notice.empty() ? std::chrono::milliseconds(kAttempt) : kFirstPatience;
  for (auto pause = kFirstStorePause;; pause = std::min(pause * 2, kLongestStorePause)) {
    if (const auto notice = where.notice.empty() ? std::nullopt : read_notice(where.notice)) {
      return Status(Code::kSystem, *notice, 0);
    }
    const uint64_t told = shortages_told();
    auto socket = dial_any(where, deadline, last);
    last = socket.status();
    if (socket.ok()) {
      auto connection = std::unique_ptr<StoreConnection>(new StoreConnection(std::move(socket).value(), tls));
      last = connection->introduce(deadline.earlier(Deadline::after(patience)));
      patience = std::min<std::chrono::milliseconds>(patience * 2, kAttempt);
      if (last.ok()) return connection;
      if (last.code() == Code::kSystem)
        return Status(last.code(), "store at " + address_of(where) + ": " + last.sentence());
      if (last.code() == Code::kPeerLost) met = last;
    }
    if (shortages_told() != told) {
      return Status(Code::kSystem, "store at " + address_of(where) + " cannot be reached: " + last.sentence());
    }
    if (deadline.passed()) break;
    wait_between_attempts(pause, deadline);
  }
  const std::string sentence = "store at " + address_of(where) + " cannot be reached: ";
  if (met.ok()) return Status(Code::kTimeout, sentence + last.sentence());
  return Status(Code::kSystem,
                sentence + met.sentence() + (where.key.present ? "; the store may have no job key" : ""));
}

Status StoreConnection::introduce(Deadline deadline) {
  const LoopWait wait{io_, nullptr, deadline};
  Status answered = handshake(wait, pipe_.stream());
  if (answered.ok()) {
    start(first_request());
    answered = wait.until([this] { return done_; });
  }
  if (answered.code() == Code::kTimeout) {
    return {Code::kTimeout,
            "a program there accepts connections and does not answer; it may be another one than the store"};
  }
  RUEDA_RETURN_IF_ERROR(answered);
  if (reply_.ok()) return {};
  if (keyed_) return {Code::kPeerLost, reply_.status().sentence()};
  return {Code::kSystem, reply_.status().sentence() + "; the store may require a job key"};
}

void StoreConnection::start(const StoreRequest& request) {
  done_ = false;
  pipe_.ask(request, [this](StoreReply reply) {
    reply_ = pipe_.broken().ok() ? Result<StoreReply>(std::move(reply)) : Result<StoreReply>(pipe_.broken());
    done_ = true;
  });
}

}  // namespace rueda::core
