#include "runtime/net/dial.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>

#include "runtime/net/socket_address.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

// One try: long enough for a busy coordinator to answer, short enough to try the next address.
constexpr auto kTryTime = 5s;
constexpr auto kFirstDialPause = 10ms;
constexpr auto kLongestDialPause = 500ms;
// Rounds in which every address said "connection refused" before the peer counts as gone: about 0.3 s.
constexpr int kRefusedRounds = 6;

/// Waits for a stream operation that reports through `result`; closes the stream if it does not come.
Status finish(const LoopWait& wait, SecureStream& stream, const std::optional<Status>& result) {
  const Status waited = wait.until([&] { return result.has_value(); });
  if (!waited.ok()) {
    stream.close();  // from here on nothing is called back
    return waited;
  }
  if (!result->ok()) stream.close();
  return *result;
}

Result<UniqueFd> connect_to(const LoopWait& wait, const SocketAddress& address) {
  auto fd = open_tcp_socket(address);
  if (!fd.ok()) return fd;
  set_no_delay(fd.value().get());
  tcp::socket socket(wait.io);
  boost::system::error_code error;
  socket.assign(address.family() == AF_INET6 ? tcp::v6() : tcp::v4(), fd.value().get(), error);
  if (error) return Status(Code::kSystem, "epoll refused a socket: " + error.message());
  fd.value().release();
  tcp::endpoint endpoint;
  std::copy_n(reinterpret_cast<const char*>(address.raw()), address.bytes, reinterpret_cast<char*>(endpoint.data()));
  endpoint.resize(address.bytes);
  // Shared, because the handler may run after this function has given up.
  const auto result = std::make_shared<std::optional<boost::system::error_code>>();
  socket.async_connect(endpoint, [result](const boost::system::error_code& done) { *result = done; });
  const Status waited = wait.until([&] { return result->has_value(); });
  if (!waited.ok()) return waited;
  if (**result == asio::error::connection_refused) return Status(Code::kPeerLost, (*result)->message());
  if (**result) return Status(Code::kSystem, (*result)->message());
  return UniqueFd(socket.release());
}

Status exchange_hello(const LoopWait& wait, SecureStream& stream, HelloDialler& hello) {
  const auto first = hello.first();
  if (!first.ok()) return first.status();
  RUEDA_RETURN_IF_ERROR(write_all(wait, stream, first.value()));
  HelloSecond second{};
  RUEDA_RETURN_IF_ERROR(read_all(wait, stream, second));
  const auto third = hello.on_second(second);
  if (!third.ok()) return third.status();
  RUEDA_RETURN_IF_ERROR(write_all(wait, stream, third.value()));
  std::array<std::byte, 1> accepted{};
  RUEDA_RETURN_IF_ERROR(read_all(wait, stream, accepted));
  if (accepted[0] != std::byte{kAccepted}) return Status(Code::kSystem, "it answered what no listener of ours does");
  return {};
}

/// Makes a connected socket a stream whose other end is proven.
Result<std::unique_ptr<SecureStream>> prove(const LoopWait& wait, UniqueFd fd, HelloDialler hello,
                                            std::shared_ptr<TlsContext> tls) {
  const bool control = hello.route().purpose == HelloPurpose::kControl;
  SecureStream plain(wait.io, std::move(fd), nullptr, StreamSide::kDialler);
  const std::array<std::byte, 1> purpose{std::byte(control ? kPurposeControl : kPurposeData)};
  RUEDA_RETURN_IF_ERROR(write_all(wait, plain, purpose));
  auto stream = std::make_unique<SecureStream>(wait.io, plain.release(), control ? std::move(tls) : nullptr,
                                               StreamSide::kDialler);
  RUEDA_RETURN_IF_ERROR(handshake(wait, *stream));
  RUEDA_RETURN_IF_ERROR(exchange_hello(wait, *stream, hello));
  return stream;
}

}  // namespace

Status handshake(const LoopWait& wait, SecureStream& stream) {
  std::optional<Status> result;
  stream.handshake([&](const Status& status) { result = status; });
  return finish(wait, stream, result);
}

Status read_all(const LoopWait& wait, SecureStream& stream, std::span<std::byte> into) {
  std::optional<Status> result;
  stream.read(into, [&](const Status& status, size_t) { result = status; });
  return finish(wait, stream, result);
}

Status write_all(const LoopWait& wait, SecureStream& stream, std::span<const std::byte> bytes) {
  std::optional<Status> result;
  stream.write(bytes, [&](const Status& status, size_t) { result = status; });
  return finish(wait, stream, result);
}

Result<std::unique_ptr<SecureStream>> dial(const LoopWait& wait, const TransportEpoch& epoch, int peer,
                                           HelloPurpose purpose, uint32_t number, std::shared_ptr<TlsContext> tls) {
  const PeerAddress& target = epoch.peer(peer);
  std::string tried = "it gave no address";
  std::chrono::nanoseconds pause = kFirstDialPause;
  for (int refused_rounds = 0;;) {
    bool all_refused = !target.addresses.empty();
    for (const std::string& numeric : target.addresses) {
      const auto address = SocketAddress::parse(numeric, target.port);
      if (!address.ok()) return address.status();
      const LoopWait this_try = wait.within(kTryTime);
      auto fd = connect_to(this_try, address.value());
      all_refused = all_refused && fd.status().code() == Code::kPeerLost;
      Status failure = fd.status();
      if (fd.ok()) {
        HelloDialler hello(epoch.hello_scope(), peer, purpose, number);
        auto stream = prove(this_try, std::move(fd).value(), std::move(hello), tls);
        if (stream.ok()) return stream;
        failure = stream.status();
      }
      if (wait.abort != nullptr && wait.abort->raised()) return wait.abort->why();
      tried = address.value().text() + ": " + failure.sentence();
    }
    refused_rounds = all_refused ? refused_rounds + 1 : 0;
    const std::string sentence =
        "rank " + std::to_string(epoch.rank) + " cannot reach " + epoch.name_of(peer) + " (" + tried + ")";
    if (refused_rounds == kRefusedRounds) return Status(Code::kPeerLost, sentence, peer);
    if (wait.deadline.passed()) return Status(Code::kTimeout, sentence, peer);
    const Status paused = wait.within(pause).until([] { return false; });
    if (paused.code() != Code::kTimeout) return paused;
    pause = std::min<std::chrono::nanoseconds>(2 * pause, kLongestDialPause);
  }
}

}  // namespace rueda::core
