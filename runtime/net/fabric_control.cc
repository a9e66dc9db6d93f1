// A control link whose frames a library carries. The fabric keeps frames of two ranks in order and knows no end of a
// stream, so an empty frame says it: the last one from a side.
#include "runtime/net/fabric_control.h"

namespace rueda::core {

void FabricInbox::put(Frame frame) {
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return;  // the link has ended: what follows belongs to nothing
    if (frame.empty()) {
      status_ = ended_by_peer(peer_, rank_);
    } else if (frame.size() > kMaxFrameBytes) {
      status_ = oversized_frame(peer_, rank_, frame.size());
    } else {
      frames_.push_back(std::move(frame));
      waiting_.fetch_add(1, std::memory_order_release);
    }
  }
  ring_();  // outside the lock, and after the frame is in: the baton's holder must find what it is woken for
}

std::optional<Frame> FabricInbox::take() {
  if (!readable()) return std::nullopt;
  MutexLock lock(mutex_);
  if (frames_.empty()) return std::nullopt;
  std::optional<Frame> frame = std::move(frames_.front());
  frames_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_release);
  return frame;
}

Status FabricInbox::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void FabricControlLink::send(std::span<const std::byte> frame, Urgency) {
  if (closed_ || frame.empty()) return;  // an empty frame on the fabric would be the goodbye
  if (frame.size() > kMaxFrameBytes) {
    // A frame left out would be a gap that the peer cannot see, so none may follow it, and no goodbye.
    closed_ = true;
    refused_ = refused_frame(inbox_->peer(), rank_, frame.size());
    return;
  }
  fabric_->send(rank_, FabricPort::kControl, Frame(frame.begin(), frame.end()));
}

Status FabricControlLink::status() const {
  if (!refused_.ok()) return refused_;
  // A fabric that has failed explains more than the silence of one link.
  const Status fabric = fabric_->status();
  return fabric.ok() ? inbox_->status() : fabric;
}

void FabricControlLink::close_send() {
  if (closed_) return;
  closed_ = true;
  fabric_->send(rank_, FabricPort::kControl, {});
}

}  // namespace rueda::core
