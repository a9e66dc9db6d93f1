// One peer's byte stream over several sockets. The sender cuts the stream into frames and gives each to any socket that
// is free; the receiver finds a frame's position in its head and reads the bytes straight into the buffer that wants
// them:
//
//   | u64 position in the stream | u32 length | bytes |        little endian, 12 bytes of head
//
//   stream    0 .......... 128 Ki .......... 256 Ki ......
//   socket 0  [ frame at 0 ][ frame at 384 Ki ]
//   socket 1  [ frame at 128 Ki ][ frame at 512 Ki ]
//   socket 2  [ frame at 256 Ki ] ...
//
// `received_` is where the stream ends that has come without a gap; frames beyond it are in `frames_` until it reaches
// them. `sent()` likewise stops at the lowest position that a socket still has.
#include "runtime/net/striped_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/wire.h"

namespace rueda::core {

namespace {

using Head = std::array<std::byte, StripedChannel::kHeadBytes>;

void write_head(Head& head, uint64_t position, size_t length) {
  WireWriter writer;
  writer.u64(position);
  writer.u32(static_cast<uint32_t>(length));
  std::copy(writer.view().begin(), writer.view().end(), head.begin());
}

}  // namespace

struct StripedChannel::Socket {
  std::unique_ptr<SecureStream> stream;
  bool open = false;   // the handshake is done
  bool ended = false;  // the peer has closed its side
  bool writing = false;
  Head out{};
  enum class Reading { kNothing, kHead, kBody, kWaitsForBuffer } reading = Reading::kNothing;
  Head in{};
  uint64_t position = 0;  // of the next byte of the frame that is being read
  size_t left = 0;        // bytes of that frame still to come
};

StripedChannel::StripedChannel(boost::asio::io_context& io, std::vector<std::unique_ptr<SecureStream>> streams,
                               std::function<void(const Status&)> broken, std::chrono::milliseconds patience)
    : patience_(patience), others_(io), broken_(std::move(broken)) {
  for (auto& stream : streams) {
    sockets_.push_back(std::make_unique<Socket>());
    Socket& socket = *sockets_.back();
    socket.stream = std::move(stream);
    socket.stream->handshake([this, &socket](const Status& status) {
      if (!status.ok()) return lost_in_handshake(socket, status);
      socket.open = true;
      assign();
      read_on(socket);
    });
  }
}

StripedChannel::~StripedChannel() = default;

void StripedChannel::fail(const Status& status) {
  if (const auto broken = std::exchange(broken_, nullptr)) broken(status);
}

/// The peer has closed a socket while it shook hands. A peer that leaves after its last message may do so: one open
/// socket is enough to bring all of it. If no socket has opened or may still open, the channel is broken.
void StripedChannel::lost_in_handshake(Socket& socket, const Status& how) {
  if (how.code() != Code::kPeerLost) return fail(how);
  socket.ended = true;
  if (std::all_of(sockets_.begin(), sockets_.end(), [](const auto& one) { return one->ended && !one->open; })) {
    return fail(how);
  }
  ended(socket, how);
}

void StripedChannel::send(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  sending_.push_back(bytes);
  assign();
}

/// Gives each free socket the next frame. A slow socket so holds up only the one frame it has.
void StripedChannel::assign() {
  int considered = 0;
  for (const auto& one : sockets_) {
    if (sending_.empty() || considered == used_) return;
    Socket& socket = *one;
    if (!socket.open) continue;
    ++considered;
    if (socket.writing) continue;
    auto& first = sending_.front();
    const auto frame = first.first(std::min(first.size(), kMostFrameBytes));
    first = first.subspan(frame.size());
    if (first.empty()) sending_.pop_front();
    const uint64_t position = std::exchange(assigned_, assigned_ + frame.size());
    unsent_.insert(position);
    write_head(socket.out, position, frame.size());
    socket.writing = true;
    socket.stream->write(socket.out, frame, [this, &socket, position](const Status& status, size_t) {
      if (!status.ok()) return fail(status);
      socket.writing = false;
      unsent_.erase(position);
      assign();
    });
  }
}

void StripedChannel::receive(std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  receiving_.push_back({wanted_end_, bytes});
  wanted_end_ += bytes.size();
  for (const auto& socket : sockets_) read_on(*socket);
}

/// Reads only while something is wanted: a peer that closes after its last message then disturbs nothing.
void StripedChannel::read_on(Socket& socket) {
  if (!socket.open || !wanted()) return;
  if (socket.reading == Socket::Reading::kNothing) read_head(socket);
  if (socket.reading == Socket::Reading::kWaitsForBuffer) read_body(socket);
}

void StripedChannel::read_head(Socket& socket) {
  socket.reading = Socket::Reading::kHead;
  socket.stream->read(socket.in, [this, &socket](const Status& status, size_t) {
    socket.reading = Socket::Reading::kNothing;
    if (!status.ok()) return ended(socket, status);
    if (const Status sound = take_head(socket); !sound.ok()) return fail(sound);
    read_body(socket);
  });
}

/// The peer has closed one socket. That breaks nothing while no more is wanted, or while the others may bring the rest.
/// If more is wanted later, the next read of this socket fails again.
void StripedChannel::ended(Socket& socket, const Status& how) {
  socket.ended = how.code() == Code::kPeerLost;
  if (!wanted()) return;
  if (!socket.ended || std::all_of(sockets_.begin(), sockets_.end(), [](const auto& one) { return one->ended; })) {
    return fail(how);
  }
  if (!std::exchange(waiting_, true)) wait_for_others(how);
}

void StripedChannel::wait_for_others(const Status& how) {
  others_.expires_after(patience_);
  others_.async_wait(
      [this, life = std::weak_ptr(life_), how, before = received_](const boost::system::error_code& error) {
        if (error || life.expired()) return;
        // As long as something came since the last look, the others are at work.
        waiting_ = wanted();
        if (!waiting_) return;
        if (received_ != before) return wait_for_others(how);
        fail(Status(how.code(), fmt::format("{}; it is one of {} sockets, and the others brought nothing for {} ms",
                                            how.sentence(), sockets_.size(), patience_.count())));
      });
}

Status StripedChannel::take_head(Socket& socket) {
  WireReader head(std::span<const std::byte>(socket.in));
  socket.position = head.u64();
  socket.left = head.u32();
  // A sound frame overlaps neither the received bytes nor any frame that has begun. The last condition refuses a
  // position whose end overflows.
  const auto next = frames_.lower_bound(socket.position);
  const bool before =
      next != frames_.begin() && std::prev(next)->first + std::prev(next)->second.length > socket.position;
  const bool behind = next != frames_.end() && next->first < socket.position + socket.left;
  if (socket.left == 0 || socket.left > kMostFrameBytes || socket.position < received_ || before || behind ||
      socket.position + socket.left < socket.position) {
    return Status(Code::kSystem, fmt::format("a frame of {} bytes at position {} does not fit after {} received bytes; "
                                             "a frame has 1 to {} bytes, and each byte comes once",
                                             socket.left, socket.position, received_, kMostFrameBytes));
  }
  frames_.emplace(socket.position, StripeFrame{socket.left, 0});
  return {};
}

/// Returns the buffer for the bytes from `position` on, to the end of one receive; empty if none wants them yet.
std::span<std::byte> StripedChannel::buffer_at(uint64_t position) const {
  const auto behind = std::upper_bound(receiving_.begin(), receiving_.end(), position,
                                       [](uint64_t at, const Wanted& wanted) { return at < wanted.begin; });
  if (behind == receiving_.begin() || position >= wanted_end_) return {};
  const Wanted& one = *std::prev(behind);
  return one.into.subspan(position - one.begin);
}

void StripedChannel::read_body(Socket& socket) {
  const auto buffer = buffer_at(socket.position);
  socket.reading = buffer.empty() ? Socket::Reading::kWaitsForBuffer : Socket::Reading::kBody;
  if (buffer.empty()) return;
  socket.stream->read_some(buffer.first(std::min(buffer.size(), socket.left)),
                           [this, &socket](const Status& status, size_t bytes) {
                             if (!status.ok()) return fail(status);
                             got(socket, bytes);
                             if (socket.left > 0) return read_body(socket);
                             socket.reading = Socket::Reading::kNothing;
                             read_on(socket);
                           });
}

void StripedChannel::got(Socket& socket, size_t bytes) {
  const auto frame = std::prev(frames_.upper_bound(socket.position));
  frame->second.got += bytes;
  socket.position += bytes;
  socket.left -= bytes;
  // The gapless part grows over every frame that begins where it ends, and over the whole part of the last one.
  while (!frames_.empty() && frames_.begin()->first <= received_) {
    const auto [position, first] = *frames_.begin();
    received_ = position + first.got;
    if (first.got < first.length) break;
    frames_.erase(frames_.begin());
  }
  while (!receiving_.empty() && receiving_.front().begin + receiving_.front().into.size() <= received_) {
    receiving_.pop_front();
  }
}

}  // namespace rueda::core
