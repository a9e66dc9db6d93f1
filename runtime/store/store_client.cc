// The blocking calls of a store over one connection, and the watch that waits for a key in the caller's event loop. The
// server keeps a `get`'s deadline and this side adds a margin to it: only a server that is gone or stuck uses that up,
// and then the connection is of no use any more, because its next reply might belong to the call that was given up.
#include "runtime/store/store_client.h"

#include <algorithm>
#include <charconv>

#include "runtime/net/loop_wait.h"
#include "runtime/store/store_connection.h"

namespace rueda::core {
namespace {

/// How long a server may take to answer a request that does not wait for a key.
constexpr std::chrono::seconds kAnswerLimit{10};

std::string name_of(const StoreLocation& where) { return "store at " + where.host + ":" + std::to_string(where.port); }

int64_t milliseconds_left(Deadline deadline) {
  if (deadline.is_never()) return -1;
  return std::chrono::ceil<std::chrono::milliseconds>(deadline.left(std::chrono::hours(24 * 365))).count();
}

}  // namespace

Result<StoreLocation> parse_store_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  StoreLocation where;
  unsigned port = 0;
  if (colon != std::string::npos) {
    where.host = text.substr(0, colon);
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
    if (parsed.ec != std::errc() || parsed.ptr != end) port = 0;
  }
  if (where.host.size() > 2 && where.host.front() == '[' && where.host.back() == ']') {
    where.host = where.host.substr(1, where.host.size() - 2);
  }
  if (where.host.empty() || port == 0 || port > 65535) {
    return Status(Code::kInvalidArgument,
                  "\"" + text + "\" is not allowed; allowed: host:port with a port from 1 to 65535");
  }
  where.port = static_cast<uint16_t>(port);
  return where;
}

StoreClient::StoreClient(StoreLocation where, std::unique_ptr<StoreConnection> connection)
    : where_(std::move(where)), connection_(std::move(connection)) {}

StoreClient::~StoreClient() = default;

Result<std::unique_ptr<StoreClient>> StoreClient::connect(const StoreLocation& where, Deadline deadline) {
  auto connection = StoreConnection::open(where, deadline);
  if (!connection.ok()) return connection.status();
  return std::unique_ptr<StoreClient>(new StoreClient(where, std::move(connection).value()));
}

Result<StoreReply> StoreClient::call(const StoreRequest& request, Deadline deadline) {
  if (request.key.empty() || request.key.size() > kMaxKeyBytes || request.value.size() > kMaxValueBytes) {
    return Status(Code::kInvalidArgument, "store: a key of " + std::to_string(request.key.size()) +
                                              " bytes with a value of " + std::to_string(request.value.size()) +
                                              "; a key has 1 to " + std::to_string(kMaxKeyBytes) +
                                              ", a value at most " + std::to_string(kMaxValueBytes));
  }
  if (!broken_.ok()) return broken_;
  connection_->start(request);
  const Status waited = LoopWait{connection_->io(), nullptr, deadline}.until([this] { return connection_->done(); });
  if (waited.ok() && connection_->reply().ok()) return std::move(connection_->reply()).value();
  const std::string why = waited.ok() ? connection_->reply().status().sentence() : "no answer came";
  // A reply that is still on its way would answer the next call, so the connection ends here.
  broken_ = Status(Code::kSystem, name_of(where_) + ": " + why);
  connection_.reset();
  return broken_;
}

Status StoreClient::set(std::string_view key, std::string_view value) {
  const auto reply =
      call({StoreOperation::kSet, std::string(key), 0, std::string(value)}, Deadline::after(kAnswerLimit));
  return reply.ok() ? reply.value().status : reply.status();
}

Result<std::string> StoreClient::get(std::string_view key, Deadline deadline) {
  // The server ends the wait; this side's own limit is later, for a server that no longer answers.
  const StoreRequest request{StoreOperation::kGet, std::string(key), milliseconds_left(deadline), {}};
  const Deadline limit =
      deadline.is_never() ? deadline : Deadline::after(std::chrono::milliseconds(request.number) + kAnswerLimit);
  auto reply = call(request, limit);
  if (!reply.ok()) return reply.status();
  if (!reply.value().status.ok()) return reply.value().status;
  return std::move(reply.value().value);
}

Result<int64_t> StoreClient::add(std::string_view key, int64_t amount) {
  const auto reply = call({StoreOperation::kAdd, std::string(key), amount, {}}, Deadline::after(kAnswerLimit));
  if (!reply.ok()) return reply.status();
  if (!reply.value().status.ok()) return reply.value().status;
  return reply.value().number;
}

Status StoreClient::remove(std::string_view key) {
  const auto reply = call({StoreOperation::kRemove, std::string(key), 0, {}}, Deadline::after(kAnswerLimit));
  return reply.ok() ? reply.value().status : reply.status();
}

StoreWatch::StoreWatch(std::string name, std::unique_ptr<StoreConnection> connection)
    : name_(std::move(name)), connection_(std::move(connection)) {}

StoreWatch::~StoreWatch() = default;

Result<std::unique_ptr<StoreWatch>> StoreWatch::start(const StoreLocation& where, const std::string& key,
                                                      Deadline deadline) {
  auto connection = StoreConnection::open(where, deadline);
  if (!connection.ok()) return connection.status();
  auto watch = std::unique_ptr<StoreWatch>(new StoreWatch(name_of(where), std::move(connection).value()));
  watch->next(key);
  return watch;
}

void StoreWatch::tell(const std::string& key, const std::string& value) {
  connection_->pipe().ask({StoreOperation::kSet, key, 0, value}, [](const StoreReply&) {});
  while (connection_->io().poll() != 0) {
  }
}

void StoreWatch::next(const std::string& key) {
  connection_->start({StoreOperation::kGet, key, -1, {}});
  // The request leaves now: the caller's event loop only watches for the reply.
  while (connection_->io().poll() != 0) {
  }
}

int StoreWatch::fd() const { return connection_->fd(); }

std::optional<Result<std::string>> StoreWatch::take() {
  if (!connection_->done()) connection_->io().poll();
  if (!connection_->done()) return std::nullopt;
  const auto& reply = connection_->reply();
  if (!reply.ok()) return Status(Code::kSystem, name_ + ": " + reply.status().sentence());
  if (!reply.value().status.ok()) return reply.value().status;
  return reply.value().value;
}

}  // namespace rueda::core
