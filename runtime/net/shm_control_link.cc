// Frames over the byte rings between two local ranks:
//
//   | u32 length | bytes |   ...   | u32 0xffffffff |     in the host's byte order; the last word ends the stream
//
// A frame goes into the ring as far as it fits; the rest waits in `queue_` and later frames wait behind it. Two kinds
// of rings of the peer's eventfd keep both sides moving: a writer rings when bytes have come, a reader when space has.
// Each publishes its word first and looks at `asleep` or `expecting` afterwards, the sleeper stores both first and
// looks at the words afterwards, all sequentially consistent: one of the two sees the other (Dekker).
#include "runtime/net/shm_control_link.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace rueda::core {
namespace {

/// Stands for a length: the writer has closed.
constexpr uint32_t kEndOfStream = 0xffffffff;

}  // namespace

ShmControlLink::ShmControlLink(LocalPair pair)
    : pair_(std::move(pair)),
      writer_(pair_.own, pair_.peer, pair_.own_index, pair_.peer_index),
      reader_(pair_.own, pair_.peer, pair_.own_index, pair_.peer_index) {}

void ShmControlLink::send(std::span<const std::byte> frame, Urgency urgency) {
  if (frame.empty() || send_closed_) return;
  if (frame.size() > kMaxFrameBytes) {
    // A frame left out would be a gap that the peer cannot see, so none may follow it.
    send_closed_ = true;
    refused_ = refused_frame(peer_name(), pair_.peer_rank, frame.size());
    return;
  }
  const auto length = static_cast<uint32_t>(frame.size());
  // All of it or nothing: behind half a frame the next one would be read as its rest.
  const size_t most = queue_.size() + sizeof(length) + frame.size();
  if (most > queue_.capacity()) queue_.reserve(std::max(most, 2 * queue_.capacity()));
  write(std::as_bytes(std::span(&length, 1)), frame);
  wake_peer(urgency);
}

void ShmControlLink::close_send() {
  if (std::exchange(send_closed_, true)) return;
  write(std::as_bytes(std::span(&kEndOfStream, 1)));
  wake_peer();
}

void ShmControlLink::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  // While older bytes are queued the ring is not for newer ones, even if it has room again.
  size_t taken = queue_.empty() ? writer_.append(head, body) : 0;
  for (const auto part : {head, body}) {
    const auto rest = part.subspan(std::min(taken, part.size()));
    queue_.insert(queue_.end(), rest.begin(), rest.end());
    taken -= part.size() - rest.size();
  }
}

bool ShmControlLink::flush() {
  if (queue_.empty()) return true;
  const size_t taken = writer_.append(std::span(queue_).subspan(queue_begin_));
  if (taken == 0) return false;
  queue_begin_ += taken;
  wake_peer();
  // Bytes that have left are erased once they are half of the queue, so each is moved a constant number of times.
  if (queue_begin_ >= queue_.size() / 2) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(queue_begin_));
    queue_begin_ = 0;
  }
  return queue_.empty();
}

void ShmControlLink::wake_peer(Urgency urgency) {
  const ControlWords& peer = pair_.peer->control();
  if ((urgency == Urgency::kRing ? peer.asleep : peer.expecting).load() == 0) return;
  // EAGAIN means that the counter is full: the peer wakes anyway.
  ::eventfd_write(pair_.peer_doorbell, 1);
}

bool ShmControlLink::take_length() {
  length_taken_ += reader_.take(std::span(length_).subspan(length_taken_));
  if (length_taken_ < kLengthBytes) return false;
  uint32_t length = 0;
  std::memcpy(&length, length_.data(), kLengthBytes);
  if (length == kEndOfStream) {
    ended_ = ended_by_peer(peer_name(), pair_.peer_rank);
  } else if (length > kMaxFrameBytes) {
    ended_ = oversized_frame(peer_name(), pair_.peer_rank, length);
  } else {
    frame_.resize(length);
  }
  return ended_.ok();
}

std::string ShmControlLink::peer_name() const { return "rank " + std::to_string(pair_.peer_rank); }

Status ShmControlLink::status() const { return refused_.ok() ? ended_ : refused_; }

bool ShmControlLink::take_frame() {
  if (length_taken_ < kLengthBytes && !take_length()) return false;
  frame_taken_ += reader_.take(std::span(frame_).subspan(frame_taken_));
  return frame_taken_ == frame_.size();
}

std::optional<Frame> ShmControlLink::receive() {
  if (!ended_.ok()) return std::nullopt;
  // The call that takes a frame's last byte hands it out, so without new bytes no frame can be whole.
  if (reader_.empty()) return std::nullopt;
  const bool whole = take_frame();
  // A writer sleeps for lack of space only if its ring is full. If it was full at this look, the ring is rung now. If
  // it filled up after the look, less than half was taken before, so more than half is unread and the next call rings.
  if (reader_.release()) wake_peer();
  if (!whole) return std::nullopt;
  length_taken_ = 0;
  frame_taken_ = 0;
  return std::exchange(frame_, Frame());
}

bool ShmControlLink::readable() const {
  if (ended_.ok() && !reader_.empty()) return true;
  return !queue_.empty() && writer_.has_room();
}

}  // namespace rueda::core
