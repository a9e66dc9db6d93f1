#include "runtime/net/striped_channel.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>

using namespace rueda::core;
using namespace std::chrono_literals;

namespace {

/// A channel of several sockets whose other ends the test holds.
class Striped {
 public:
  explicit Striped(int sockets, std::chrono::milliseconds patience = 60s) {
    std::vector<std::unique_ptr<SecureStream>> streams;
    for (int i = 0; i < sockets; ++i) {
      int fds[2];
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
      const int small = 64 << 10;
      ::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
      streams.push_back(std::make_unique<SecureStream>(io_, UniqueFd(fds[0]), nullptr, StreamSide::kDialler));
      ends_.emplace_back(fds[1]);
    }
    channel_.emplace(
        io_, std::move(streams), [this](const Status& why) { broken_ = why; }, patience);
    turn();
  }
  StripedChannel& channel() { return *channel_; }
  const Status& broken() const { return broken_; }
  void close(size_t end) { ends_[end].reset(); }
  void leave() { channel_.reset(); }
  /// Everything that can happen now.
  void turn() {
    io_.restart();
    while (io_.poll() != 0) {
    }
  }
  template <typename Ready>
  bool until(Ready&& ready) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!ready() && std::chrono::steady_clock::now() < end) {
      io_.restart();
      io_.run_one_for(1s);
    }
    return ready();
  }
  /// Writes a frame, or its beginning, to one end.
  void frame(size_t end, uint64_t position, const std::string& bytes, std::optional<uint32_t> length = {}) {
    std::string head;
    for (int i = 0; i < 8; ++i) head += static_cast<char>(position >> (8 * i));
    const auto said = length.value_or(static_cast<uint32_t>(bytes.size()));
    for (int i = 0; i < 4; ++i) head += static_cast<char>(said >> (8 * i));
    write(end, head + bytes);
  }
  void write(size_t end, const std::string& bytes) {
    REQUIRE(::write(ends_[end].get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    turn();
  }
  /// All that has arrived at one end, up to `most` bytes.
  std::string read(size_t end, size_t most = 1 << 20) {
    std::string all(most, '\0');
    const ssize_t bytes = ::read(ends_[end].get(), all.data(), most);
    all.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
    turn();
    return all;
  }

 private:
  boost::asio::io_context io_;
  std::vector<UniqueFd> ends_;
  Status broken_;
  std::optional<StripedChannel> channel_;
};

std::span<std::byte> memory(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// Bytes a reader finds behind the heads of whole frames.
size_t body_bytes(const std::string& read) {
  size_t bodies = 0;
  for (size_t at = 0; at + StripedChannel::kHeadBytes <= read.size();) {
    uint32_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= static_cast<uint32_t>(static_cast<uint8_t>(read[at + 8 + i])) << (8 * i);
    bodies += length;
    at += StripedChannel::kHeadBytes + length;
  }
  return bodies;
}

}  // namespace

TEST_CASE("frames land where they belong, whichever socket brings them and in whatever order") {
  Striped peer(3);
  std::string one(4, '.'), two(6, '.');
  peer.channel().receive(memory(one));
  peer.channel().receive(memory(two));
  peer.frame(2, 7, "hij");
  CHECK(peer.channel().received() == 0);
  peer.frame(0, 3, "defg");  // of both receives
  CHECK(peer.channel().received() == 0);
  peer.frame(1, 0, "a", 3);
  CHECK(peer.channel().received() == 1);
  peer.write(1, "bc");
  CHECK(peer.channel().received() == 10);
  CHECK(one + two == "abcdefghij");
  CHECK(peer.broken().ok());
}

TEST_CASE("a frame that comes before it is wanted waits in its socket") {
  Striped peer(2);
  std::string one(2, '.'), two(3, '.');
  peer.channel().receive(memory(one));
  peer.frame(0, 2, "cde");
  peer.frame(1, 0, "ab");
  CHECK(peer.channel().received() == 2);
  peer.channel().receive(memory(two));
  peer.turn();
  CHECK(peer.channel().received() == 5);
  CHECK(one + two == "abcde");
}

TEST_CASE("sends take no more sockets than they may, and all again when they may") {
  Striped peer(3);
  const std::vector<std::byte> bytes(8 << 20);
  peer.channel().use(2);
  peer.channel().send(bytes);
  peer.turn();
  CHECK(peer.read(2).empty());
  peer.channel().use(3);
  std::string read;
  CHECK(peer.until([&] {
    for (const size_t end : {0u, 1u}) peer.read(end);
    return !(read = peer.read(2)).empty();
  }));
}

TEST_CASE("a socket that nobody reads holds up the frame it has and no other") {
  Striped peer(2);
  constexpr size_t kBytes = 8 << 20;
  const std::vector<std::byte> bytes(kBytes);
  peer.channel().send(bytes);
  size_t read = 0;
  const auto drain = [&] {
    for (std::string some; !(some = peer.read(1)).empty();) read += some.size();
  };
  // All but what the other socket took, which is less than its buffer and a frame.
  REQUIRE(peer.until([&] {
    drain();
    return read > kBytes - (1 << 20);
  }));
  CHECK(peer.channel().sent() <= kBytes - StripedChannel::kMostFrameBytes);
  std::string slow;
  for (std::string some; !(some = peer.read(0)).empty();) slow += some;
  drain();
  CHECK(peer.channel().sent() == kBytes);
  CHECK(read + slow.size() > kBytes);
  CHECK(body_bytes(slow) >= StripedChannel::kMostFrameBytes);
}

TEST_CASE("a frame of no allowed length, or of bytes that were there already, breaks the channel and says so") {
  struct Wrong {
    uint64_t position;
    uint32_t length;
  };
  const auto wrong = GENERATE(Wrong{4, 0}, Wrong{4, StripedChannel::kMostFrameBytes + 1}, Wrong{1, 2}, Wrong{6, 4},
                              Wrong{9, 2}, Wrong{~uint64_t{0}, 2});
  Striped peer(3);
  std::string text(20, '.');
  peer.channel().receive(memory(text));
  peer.frame(0, 0, "ab");
  peer.frame(1, 8, "i", 3);
  REQUIRE(peer.channel().received() == 2);
  REQUIRE(peer.broken().ok());
  peer.frame(2, wrong.position, "", wrong.length);
  CHECK(peer.broken().sentence() ==
        "a frame of " + std::to_string(wrong.length) + " bytes at position " + std::to_string(wrong.position) +
            " does not fit after 2 received bytes; a frame has 1 to 131072 bytes, and each byte comes once");
  CHECK(text.substr(2, 6) == "......");
}

TEST_CASE("a peer that closes its sockets behind the last frame is heard to the end") {
  Striped peer(3);
  std::string text(3, '.');
  peer.channel().receive(memory(text));
  peer.close(0);
  peer.turn();
  peer.frame(1, 1, "bc");
  peer.close(1);
  peer.turn();
  CHECK(peer.broken().ok());
  peer.frame(2, 0, "a");
  peer.close(2);
  peer.turn();
  CHECK(text == "abc");
  CHECK(peer.broken().ok());  // nothing more is wanted
  peer.channel().receive(memory(text));
  CHECK(peer.until([&] { return !peer.broken().ok(); }));
  CHECK(peer.broken().sentence() == "the peer closed the connection");
}

TEST_CASE("a socket that the peer closes in the TLS handshake breaks a channel only if no other is left") {
  const auto tls = TlsContext::create("job", {}).value();
  const bool peer_stays = GENERATE(true, false);
  boost::asio::io_context io;
  std::vector<std::unique_ptr<SecureStream>> streams;
  std::vector<UniqueFd> ends;
  for (int i = 0; i < 2; ++i) {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
    streams.push_back(std::make_unique<SecureStream>(io, UniqueFd(fds[0]), tls, StreamSide::kListener));
    ends.emplace_back(fds[1]);
  }
  Status broken;
  StripedChannel channel(io, std::move(streams), [&](const Status& why) { broken = why; });
  std::string text(3, '.');
  channel.receive(memory(text));
  ends[0].reset();
  SecureStream peer(io, std::move(ends[1]), tls, StreamSide::kDialler);
  const std::string frame = std::string(8, '\0') + '\3' + std::string(3, '\0') + "abc";
  if (peer_stays) {
    peer.handshake([&](const Status&) { peer.write(std::as_bytes(std::span(frame)), [](const Status&, size_t) {}); });
  } else {
    peer.close();
  }
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (broken.ok() && channel.received() < 3 && std::chrono::steady_clock::now() < end) {
    io.restart();
    io.run_one_for(1s);
  }
  CHECK(broken.ok() == peer_stays);
  CHECK(text == (peer_stays ? "abc" : "..."));
  if (!peer_stays) CHECK(broken.code() == Code::kPeerLost);
}

TEST_CASE("a socket that closes within a frame breaks the channel at once") {
  Striped peer(2);
  std::string text(3, '.');
  peer.channel().receive(memory(text));
  peer.frame(0, 0, "a", 3);
  peer.close(0);
  CHECK(peer.until([&] { return !peer.broken().ok(); }));
  CHECK(peer.broken().code() == Code::kPeerLost);
}

TEST_CASE("one socket closed and silence on the others is not waited for without end") {
  Striped peer(2, 1ms);
  std::string text(3, '.');
  peer.channel().receive(memory(text));
  peer.close(0);
  CHECK(peer.until([&] { return !peer.broken().ok(); }));
  CHECK(peer.broken().sentence() ==
        "the peer closed the connection; it is one of 2 sockets, and the others brought nothing for 1 ms");
}

TEST_CASE("a channel that goes with frames under way touches nobody's memory any more") {
  Striped peer(2, 1ms);
  {
    const std::vector<std::byte> bytes(4 << 20);
    std::string text(3, '.');
    peer.channel().send(bytes);
    peer.channel().receive(memory(text));
    peer.frame(0, 0, "a", 3);
    peer.close(1);
    peer.leave();
  }
  peer.turn();
  CHECK(peer.broken().ok());
}
