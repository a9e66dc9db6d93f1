#include "runtime/net/striped_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/base/wire.h"

namespace rueda::core {

namespace {

using Head = std::array<std::byte, StripedChannel::kHeadBytes>;

void write_head(Head& head, uint64_t place, size_t length) {
  WireWriter writer;
  writer.u64(place);
  writer.u32(static_cast<uint32_t>(length));
  std::copy(writer.view().begin(), writer.view().end(), head.begin());
}

}  // namespace

struct StripedChannel::Socket {
  std::unique_ptr<SecureStream> stream;
  bool open = false;   // the handshake is done
  bool ended = false;  // for reading, by the peer
  bool writing = false;
  Head out{};
  enum class Reading { kNothing, kHead, kBody, kWaitsForPlace } reading = Reading::kNothing;
  Head in{};
  uint64_t place = 0;  // of the next byte of the frame it is in
  size_t left = 0;     // of that frame
};

StripedChannel::StripedChannel(boost::asio::io_context& io, std::vector<std::unique_ptr<SecureStream>> streams,
                               std::function<void(const Status&)> broken, std::chrono::milliseconds patience)
    : patience_(patience), others_(io), broken_(std::move(broken)) {
  for (auto& stream : streams) {
    sockets_.push_back(std::make_unique<Socket>());
    Socket& socket = *sockets_.back();
    socket.stream = std::move(stream);
    socket.stream->handshake([this, &socket](const Status& status) {
      if (!status.ok()) return fail(status);
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

void StripedChannel::send(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  sending_.push_back(bytes);
  assign();
}

void StripedChannel::assign() {
  for (const auto& one : sockets_) {
    if (sending_.empty()) return;
    Socket& socket = *one;
    if (!socket.open || socket.writing) continue;
    auto& first = sending_.front();
    const auto frame = first.first(std::min(first.size(), kMostFrameBytes));
    first = first.subspan(frame.size());
    if (first.empty()) sending_.pop_front();
    const uint64_t place = std::exchange(assigned_, assigned_ + frame.size());
    unsent_.insert(place);
    write_head(socket.out, place, frame.size());
    socket.writing = true;
    socket.stream->write(socket.out, frame, [this, &socket, place](const Status& status, size_t) {
      if (!status.ok()) return fail(status);
      socket.writing = false;
      unsent_.erase(place);
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

/// Sockets are read only while something is wanted, as those of a `TcpChannel`.
void StripedChannel::read_on(Socket& socket) {
  if (!socket.open || !wanted()) return;
  if (socket.reading == Socket::Reading::kNothing) read_head(socket);
  if (socket.reading == Socket::Reading::kWaitsForPlace) read_body(socket);
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

/// A peer may close when it has sent all that is wanted of it. If more is later, reading fails again.
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
        waiting_ = wanted();
        if (!waiting_) return;
        if (received_ != before) return wait_for_others(how);
        fail(Status(how.code(), fmt::format("{}, one of {}, and the others brought nothing for {} ms", how.sentence(),
                                            sockets_.size(), patience_.count())));
      });
}

Status StripedChannel::take_head(Socket& socket) {
  WireReader head(std::span<const std::byte>(socket.in));
  socket.place = head.u64();
  socket.left = head.u32();
  const auto next = frames_.lower_bound(socket.place);
  const bool before = next != frames_.begin() && std::prev(next)->first + std::prev(next)->second.length > socket.place;
  const bool behind = next != frames_.end() && next->first < socket.place + socket.left;
  if (socket.left == 0 || socket.left > kMostFrameBytes || socket.place < received_ || before || behind ||
      socket.place + socket.left < socket.place) {
    return Status(Code::kSystem, fmt::format("a frame of {} bytes at {} does not fit behind {} received ones; 1 to {} "
                                             "bytes are allowed, once each",
                                             socket.left, socket.place, received_, kMostFrameBytes));
  }
  frames_.emplace(socket.place, Frame{socket.left, 0});
  return {};
}

/// From `position` on, as far as one receive goes; empty: not wanted yet.
std::span<std::byte> StripedChannel::place_of(uint64_t position) const {
  const auto behind = std::upper_bound(receiving_.begin(), receiving_.end(), position,
                                       [](uint64_t place, const Wanted& wanted) { return place < wanted.begin; });
  if (behind == receiving_.begin() || position >= wanted_end_) return {};
  const Wanted& one = *std::prev(behind);
  return one.into.subspan(position - one.begin);
}

void StripedChannel::read_body(Socket& socket) {
  const auto place = place_of(socket.place);
  socket.reading = place.empty() ? Socket::Reading::kWaitsForPlace : Socket::Reading::kBody;
  if (place.empty()) return;
  socket.stream->read_some(place.first(std::min(place.size(), socket.left)),
                           [this, &socket](const Status& status, size_t bytes) {
                             if (!status.ok()) return fail(status);
                             got(socket, bytes);
                             if (socket.left > 0) return read_body(socket);
                             socket.reading = Socket::Reading::kNothing;
                             read_on(socket);
                           });
}

void StripedChannel::got(Socket& socket, size_t bytes) {
  const auto frame = std::prev(frames_.upper_bound(socket.place));
  frame->second.got += bytes;
  socket.place += bytes;
  socket.left -= bytes;
  while (!frames_.empty() && frames_.begin()->first <= received_) {
    const auto [place, first] = *frames_.begin();
    received_ = place + first.got;
    if (first.got < first.length) break;
    frames_.erase(frames_.begin());
  }
  while (!receiving_.empty() && receiving_.front().begin + receiving_.front().into.size() <= received_) {
    receiving_.pop_front();
  }
}

}  // namespace rueda::core
