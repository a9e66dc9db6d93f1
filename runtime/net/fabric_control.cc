#include "runtime/net/fabric_control.h"

namespace rueda::core {

void FabricInbox::put(Frame frame) {
  {
    MutexLock lock(mutex_);
    if (!status_.ok()) return;
    if (frame.empty()) {
      status_ = Status(Code::kShutDown, peer_ + " has ended its side of the control connection", rank_);
    } else if (frame.size() > kMaxFrameBytes) {
      status_ = Status(Code::kPeerLost,
                       peer_ + " sent a control frame of " + std::to_string(frame.size()) + " bytes, the limit is " +
                           std::to_string(kMaxFrameBytes),
                       rank_);
    } else {
      frames_.push_back(std::move(frame));
      waiting_.fetch_add(1, std::memory_order_release);
    }
  }
  ring_();
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
  if (closed_ || frame.empty() || !refused_.ok()) return;  // `status` tells the caller
  if (frame.size() > kMaxFrameBytes) {
    refused_ = Status(Code::kSystem,
                      "a control frame to rank " + std::to_string(rank_) + " has " + std::to_string(frame.size()) +
                          " bytes, the limit is " + std::to_string(kMaxFrameBytes),
                      rank_);
    return;
  }
  fabric_->send(rank_, FabricPort::kControl, Frame(frame.begin(), frame.end()));
}

Status FabricControlLink::status() const {
  if (!refused_.ok()) return refused_;
  const Status fabric = fabric_->status();
  return fabric.ok() ? inbox_->status() : fabric;
}

void FabricControlLink::close_send() {
  if (closed_) return;
  closed_ = true;
  fabric_->send(rank_, FabricPort::kControl, {});
}

}  // namespace rueda::core
