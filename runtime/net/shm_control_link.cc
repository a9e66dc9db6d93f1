#include "runtime/net/shm_control_link.h"

#include <sys/eventfd.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace rueda::core {
namespace {

/// In the place of a length: the writer has closed.
constexpr uint32_t kEndOfStream = 0xffffffff;

}  // namespace

ShmControlLink::ShmControlLink(LocalPair pair)
    : pair_(std::move(pair)),
      writer_(pair_.own, pair_.peer, pair_.own_index, pair_.peer_index),
      reader_(pair_.own, pair_.peer, pair_.own_index, pair_.peer_index) {}

void ShmControlLink::send(std::span<const std::byte> frame, Urgency urgency) {
  const auto length = static_cast<uint32_t>(frame.size());
  write(std::as_bytes(std::span(&length, 1)));
  write(frame);
  writer_.publish();
  wake_peer(urgency);
}

void ShmControlLink::close_send() {
  write(std::as_bytes(std::span(&kEndOfStream, 1)));
  writer_.publish();
  wake_peer();
}

void ShmControlLink::write(std::span<const std::byte> bytes) {
  const size_t taken = queue_.empty() ? writer_.append(bytes) : 0;
  const auto rest = bytes.subspan(taken);
  queue_.insert(queue_.end(), rest.begin(), rest.end());
}

bool ShmControlLink::flush() {
  if (queue_.empty()) return true;
  const size_t taken = writer_.append(std::span(queue_).subspan(queue_begin_));
  if (taken == 0) return false;
  queue_begin_ += taken;
  writer_.publish();
  wake_peer();
  if (queue_begin_ >= queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(queue_begin_));
    queue_begin_ = 0;
  }
  return queue_.empty();
}

void ShmControlLink::wake_peer(Urgency urgency) {
  const uint32_t asleep = pair_.peer->control().asleep.load();
  if (asleep == kLooking || (asleep == kRestingIdle && urgency == Urgency::kWithNextTurn)) return;
  // EAGAIN: the counter is full, so the peer will wake anyway.
  ::eventfd_write(pair_.peer_doorbell, 1);
}

bool ShmControlLink::take_length() {
  length_taken_ += reader_.take(std::span(length_).subspan(length_taken_));
  if (length_taken_ < kLengthBytes) return false;
  uint32_t length = 0;
  std::memcpy(&length, length_.data(), kLengthBytes);
  if (length == kEndOfStream) {
    refuse(Code::kShutDown, "has closed its control link");
  } else if (length > kMaxFrameBytes) {
    refuse(Code::kPeerLost, "sent a control frame of " + std::to_string(length) + " bytes, the limit is " +
                                std::to_string(kMaxFrameBytes));
  } else {
    frame_.resize(length);
  }
  return status_.ok();
}

void ShmControlLink::refuse(Code code, const std::string& what) {
  status_ = Status(code, "rank " + std::to_string(pair_.peer_rank) + " " + what, pair_.peer_rank);
}

bool ShmControlLink::take_frame() {
  if (length_taken_ < kLengthBytes && !take_length()) return false;
  frame_taken_ += reader_.take(std::span(frame_).subspan(frame_taken_));
  return frame_taken_ == frame_.size();
}

std::optional<Frame> ShmControlLink::receive() {
  if (!status_.ok()) return std::nullopt;
  // Without news nothing can have become whole: a frame is handed out by the call that takes its last byte.
  if (reader_.empty()) return std::nullopt;
  const bool whole = take_frame();
  // A writer sleeps on space only when its ring is full. Either that is what we see now, or it filled up after this
  // look, more than half of it is still unread, and the next call sees that.
  const size_t occupied = reader_.occupied_bytes();
  reader_.release();
  if (occupied >= reader_.capacity() / 2) wake_peer();
  if (!whole) return std::nullopt;
  length_taken_ = 0;
  frame_taken_ = 0;
  return std::exchange(frame_, Frame());
}

bool ShmControlLink::readable() const {
  if (status_.ok() && !reader_.empty()) return true;
  return !queue_.empty() && writer_.free_bytes() > 0;
}

}  // namespace rueda::core
