// Data connections of one lane. A channel keeps at most one read and one write with its stream and starts the next one
// in the callback of the last; both move bytes straight between the socket and the caller's buffers.
//
// A channel set owns the failure of all its channels: the first one stays, and after it the loop never runs again,
// because the buffers that are still queued belong to the caller again.
#include "runtime/net/tcp_channel.h"

#include <utility>

#include "runtime/base/log.h"
#include "runtime/net/dial.h"
#include "runtime/net/lane_loop.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/striped_channel.h"

namespace rueda::core {

TcpChannel::TcpChannel(std::unique_ptr<SecureStream> stream, std::function<void(const Status&)> broken)
    : stream_(std::move(stream)), broken_(std::move(broken)) {
  stream_->handshake([this](const Status& status) {
    if (!status.ok()) {
      fail(status);
      return;
    }
    open_ = true;
    // What the lane queued during the handshake.
    if (!sending_.empty()) send_next();
    if (!receiving_.empty()) receive_next();
  });
}

void TcpChannel::fail(const Status& status) {
  if (const auto broken = std::exchange(broken_, nullptr)) broken(status);
}

void TcpChannel::send(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  sending_.push_back(bytes);
  if (open_ && sending_.size() == 1) send_next();
}

void TcpChannel::send_next() {
  stream_->write_some(sending_.front(), [this](const Status& status, size_t bytes) {
    if (!status.ok()) {
      fail(status);
      return;
    }
    sent_ += bytes;
    auto& first = sending_.front();
    first = first.subspan(bytes);
    if (first.empty()) sending_.pop_front();
    if (!sending_.empty()) send_next();
  });
}

void TcpChannel::receive(std::span<std::byte> bytes) {
  if (bytes.empty()) return;
  receiving_.push_back(bytes);
  if (open_ && receiving_.size() == 1) receive_next();
}

void TcpChannel::receive_next() {
  stream_->read_some(receiving_.front(), [this](const Status& status, size_t bytes) {
    if (!status.ok()) {
      fail(status);
      return;
    }
    received_ += bytes;
    auto& first = receiving_.front();
    first = first.subspan(bytes);
    if (first.empty()) receiving_.pop_front();
    if (!receiving_.empty()) receive_next();
  });
}

TcpChannelSet::TcpChannelSet(std::shared_ptr<LaneLoop> loop, uint32_t lane, const TransportEpoch& epoch,
                             PathWatch& paths, const Abort& abort)
    : loop_(std::move(loop)), lane_(lane), epoch_(epoch), paths_(paths), abort_(abort) {}

TcpChannelSet::~TcpChannelSet() {
  for (const uint64_t number : watched_) paths_.remove(number);
}

Result<std::unique_ptr<SecureStream>> TcpChannelSet::connect(int rank, uint32_t socket, const LoopWait& wait) {
  // Of two ranks the higher one dials, so both never open a connection at once.
  if (epoch_.rank > rank) {
    return dial(wait, epoch_, rank, HelloPurpose::kData, data_number(lane_, socket), nullptr, &paths_);
  }
  DataSocket made;
  const Status waited = wait.until([&] { return (made = loop_->take(rank, socket)).fd.valid(); });
  if (waited.ok()) {
    return std::make_unique<SecureStream>(loop_->io(), std::move(made.fd), std::move(made.tls), StreamSide::kListener);
  }
  if (waited.code() != Code::kTimeout || abort_.raised()) return waited;
  return Status(Code::kTimeout,
                epoch_.name_of(rank) + " opened no data connection to rank " + std::to_string(epoch_.rank) +
                    " for lane " + std::to_string(lane_),
                rank);
}

/// The first batch of a peer runs over the first connection, whatever it asks for: the further ones then need no
/// thought for its handshake, which may take until the peer's lane is there.
Result<Channel*> TcpChannelSet::to(int rank, Deadline deadline) {
  const bool used_before = channels_.contains(rank);
  auto first = first_to(rank, deadline);
  const bool elsewhere = epoch_.peer(rank).host != epoch_.peer(epoch_.rank).host;
  if (!first.ok() || !used_before || !elsewhere || sockets_ < 2 || epoch_.sockets_per_peer > 1) return first;
  const auto further = further_to(rank, *first.value(), deadline);
  if (!further.ok()) return further.status();
  if (further.value() == nullptr) return first;
  further.value()->use(sockets_);
  return further.value();
}

Result<StripedChannel*> TcpChannelSet::further_to(int rank, Channel& first, Deadline deadline) {
  const auto known = further_.find(rank);
  if (known != further_.end()) return known->second.get();
  if (!failure_.ok()) return failure_;
  auto streams = epoch_.rank > rank ? dial_further(rank, first, deadline) : take_further(rank, first, deadline);
  if (!streams.ok()) return streams.status();
  std::unique_ptr<StripedChannel> channel;
  if (!streams.value().empty()) {
    for (const auto& stream : streams.value()) {
      watch(rank, *stream);
      keep_alive(stream->descriptor());
    }
    channel = std::make_unique<StripedChannel>(loop_->io(), std::move(streams).value(),
                                               [this, rank](const Status& why) { broke(rank, why); });
  }
  return further_.emplace(rank, std::move(channel)).first->second.get();
}

/// Does without those that do not come about soon: one connection is enough. Nobody is told of an unreachable address,
/// because the first connection shows that the peer is reached.
Result<TcpChannelSet::Streams> TcpChannelSet::dial_further(int rank, Channel& first, Deadline deadline) {
  const LoopWait wait = LoopWait{loop_->io(), &abort_, deadline}.within(kFurtherTime);
  Streams streams;
  while (streams.size() < kFurtherSockets) {
    const auto socket = static_cast<uint32_t>(streams.size()) + 1;
    auto stream = dial(wait, epoch_, rank, HelloPurpose::kData, data_number(lane_, socket), nullptr);
    if (!stream.ok()) {
      if (abort_.raised()) return abort_.why();
      log(LogLevel::kInfo, "lane {} has {} further connections to {}: {}", lane_, streams.size(), epoch_.name_of(rank),
          stream.status().sentence());
      break;
    }
    streams.push_back(std::move(stream).value());
  }
  told_ = static_cast<std::byte>(streams.size());
  const uint64_t end = first.sent() + 1;
  first.send(std::span(&told_, 1));
  RUEDA_RETURN_IF_ERROR(until([&] { return first.sent() >= end; }, deadline));
  return streams;
}

Result<TcpChannelSet::Streams> TcpChannelSet::take_further(int rank, Channel& first, Deadline deadline) {
  const uint64_t end = first.received() + 1;
  first.receive(std::span(&told_, 1));
  RUEDA_RETURN_IF_ERROR(until([&] { return first.received() >= end; }, deadline));
  const auto count = std::to_integer<uint32_t>(told_);
  if (count > kFurtherSockets) {
    broke(rank, Status(Code::kSystem, "it tells of " + std::to_string(count) +
                                          " further connections, and the most are " + std::to_string(kFurtherSockets)));
    return failure_;
  }
  Streams streams;
  for (uint32_t socket = 1; socket <= count; ++socket) {
    auto stream = connect(rank, socket, LoopWait{loop_->io(), &abort_, deadline});
    if (!stream.ok()) return stream.status();
    streams.push_back(std::move(stream).value());
  }
  return streams;
}

void TcpChannelSet::watch(int rank, const SecureStream& stream) {
  watched_.push_back(paths_.add(rank, stream.descriptor()));
}

Result<Channel*> TcpChannelSet::first_to(int rank, Deadline deadline) {
  const auto known = channels_.find(rank);
  if (known != channels_.end()) return known->second.get();
  if (!failure_.ok()) return failure_;
  const LoopWait wait{loop_->io(), &abort_, deadline};
  std::vector<std::unique_ptr<SecureStream>> streams;
  for (uint32_t socket = 0; socket < static_cast<uint32_t>(epoch_.sockets_per_peer); ++socket) {
    auto stream = connect(rank, socket, wait);
    if (!stream.ok()) return stream.status();
    watch(rank, *stream.value());
    streams.push_back(std::move(stream).value());
  }
  const auto broken = [this, rank](const Status& why) { broke(rank, why); };
  std::unique_ptr<Channel> channel;
  if (streams.size() == 1) {
    channel = std::make_unique<TcpChannel>(std::move(streams.front()), broken);
  } else {
    channel = std::make_unique<StripedChannel>(loop_->io(), std::move(streams), broken);
  }
  return channels_.emplace(rank, std::move(channel)).first->second.get();
}

Status TcpChannelSet::until(const std::function<bool()>& ready, Deadline deadline) {
  const LoopWait wait{loop_->io(), &abort_, deadline};
  const Status waited = wait.until([&] { return !failure_.ok() || ready(); });
  // A failed wait is the last one: the loop must not run again, because the caller may free what is queued.
  if (!waited.ok() && failure_.ok()) {
    const bool late = waited.code() == Code::kTimeout && !abort_.raised();
    failure_ = late ? Status(Code::kTimeout, "rank " + std::to_string(epoch_.rank) + ": deadline passed in lane " +
                                                 std::to_string(lane_) + "'s data connections")
                    : waited;
  }
  return failure_;
}

void TcpChannelSet::poll() {
  if (failure_.ok()) loop_->io().poll();
}

void TcpChannelSet::wake() { loop_->wake(); }

void TcpChannelSet::broke(int rank, const Status& why) {
  if (!failure_.ok()) return;
  // The end of the epoch closes connections, too: a peer that heard of it earlier did not cause it.
  if (abort_.raised()) {
    failure_ = abort_.why();
    return;
  }
  const PeerAddress& peer = epoch_.peer(rank);
  const std::string address =
      peer.addresses.empty() ? "" : " at " + peer.addresses.front() + ":" + std::to_string(peer.port);
  failure_ = Status(Code::kPeerLost,
                    "rank " + std::to_string(epoch_.rank) + " lost its data connection to " + epoch_.name_of(rank) +
                        address + ": " + why.sentence(),
                    rank);
}

}  // namespace rueda::core
