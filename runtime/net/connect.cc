// Connects to the first of a peer's addresses that answers, in the manner of Happy Eyeballs (RFC 8305):
//
//   address 0   |-- connecting ------------------------ ... silent
//   address 1            |-- connecting ---- connected: taken
//   address 2                      |-- connecting ... closed with the others
//               0      100 ms    200 ms
//
// All attempts share one event loop. An attempt keeps running when the next one begins, so a slow address still wins
// if it answers before a later one. An address that refuses at once ends the head start early.
#include "runtime/net/connect.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>

#include "runtime/base/shortage.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using namespace std::chrono_literals;

namespace {

constexpr auto kHeadStart = 100ms;

/// One address being tried. Its handler may run after the caller has given up, so `result` is shared with it.
struct Attempt {
  explicit Attempt(asio::io_context& io) : socket(io), result(std::make_shared<std::optional<error_code>>()) {}
  tcp::socket socket;
  std::shared_ptr<std::optional<error_code>> result;
  std::string reason;  // why the attempt could not begin; empty if it began

  bool connected() const { return reason.empty() && result->has_value() && !**result; }
  bool failed() const { return !reason.empty() || (result->has_value() && **result); }
  bool refused() const { return result->has_value() && **result == asio::error::connection_refused; }
  std::string why() const {
    if (!reason.empty()) return reason;
    return result->has_value() ? (*result)->message() : "";
  }
};

std::unique_ptr<Attempt> begin(asio::io_context& io, const SocketAddress& address) {
  auto attempt = std::make_unique<Attempt>(io);
  auto fd = open_tcp_socket(address);
  if (!fd.ok()) {
    attempt->reason = fd.status().sentence();
    return attempt;
  }
  set_no_delay(fd.value().get());
  error_code error;
  attempt->socket.assign(address.family() == AF_INET6 ? tcp::v6() : tcp::v4(), fd.value().get(), error);
  if (error) {
    attempt->reason = "epoll refused a socket: " + reason_of(error.value());
    return attempt;
  }
  fd.value().release();
  tcp::endpoint endpoint;
  std::copy_n(reinterpret_cast<const char*>(address.raw()), address.bytes, reinterpret_cast<char*>(endpoint.data()));
  endpoint.resize(address.bytes);
  attempt->socket.async_connect(endpoint, [result = attempt->result](const error_code& done) { *result = done; });
  return attempt;
}

using Attempts = std::vector<std::unique_ptr<Attempt>>;

bool any_connected(const Attempts& attempts) {
  return std::any_of(attempts.begin(), attempts.end(), [](const auto& one) { return one->connected(); });
}

bool all_failed(const Attempts& attempts) {
  return std::all_of(attempts.begin(), attempts.end(), [](const auto& one) { return one->failed(); });
}

}  // namespace

Result<Connected> connect_first(const LoopWait& wait, std::span<const SocketAddress> addresses,
                                ConnectFailures& failures) {
  Attempts attempts;
  for (const SocketAddress& address : addresses) {
    attempts.push_back(begin(wait.io, address));
    const bool last = attempts.size() == addresses.size();
    const LoopWait turn = last ? wait : wait.within(kHeadStart);
    const Status waited = turn.until([&] { return any_connected(attempts) || all_failed(attempts); });
    if (!waited.ok() && waited.code() != Code::kTimeout) return waited;
    // An answer that is there already counts, even if the caller came with a deadline that had passed.
    if (!waited.ok()) wait.io.poll();
    if (any_connected(attempts)) break;
  }
  // Several may have connected in one turn of the loop; the caller prefers the earliest.
  for (size_t index = 0; index < attempts.size(); ++index) {
    if (attempts[index]->connected()) return Connected{UniqueFd(attempts[index]->socket.release()), index};
  }
  failures.reasons.clear();
  failures.all_refused = !attempts.empty();
  for (const auto& attempt : attempts) {
    failures.reasons.push_back(attempt->why());
    failures.all_refused = failures.all_refused && attempt->refused();
  }
  return Status(Code::kSystem, "no address answers");
}

Result<Connected> connect_first(std::span<const SocketAddress> addresses, Deadline deadline,
                                ConnectFailures& failures) {
  asio::io_context io(1);
  // Without the guard the loop stops for good once the first attempt has failed and before the next one begins.
  const auto guard = asio::make_work_guard(io);
  return connect_first(LoopWait{io, nullptr, deadline}, addresses, failures);
}

std::string ConnectFailures::text(std::span<const SocketAddress> addresses) const {
  std::string all;
  for (size_t index = 0; index < addresses.size(); ++index) {
    const bool known = index < reasons.size() && !reasons[index].empty();
    all += (index == 0 ? "" : "; ") + addresses[index].text() + ": " + (known ? reasons[index] : "no answer");
  }
  return all;
}

}  // namespace rueda::core
