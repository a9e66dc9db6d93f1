#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/mutex.h"
#include "runtime/net/control_link.h"
#include "runtime/net/fabric.h"

namespace rueda::core {

/// Frames that have come from one rank over a fabric. The fabric's thread puts them in, the holder of the baton takes
/// them out. An empty frame is the last one.
class FabricInbox {
 public:
  /// `peer` is the other rank's name in sentences. `ring` wakes the coordinator; the fabric's thread calls it.
  FabricInbox(std::string peer, int rank, std::function<void()> ring)
      : peer_(std::move(peer)), rank_(rank), ring_(std::move(ring)) {}
  void put(Frame frame) RUEDA_EXCLUDES(mutex_);
  std::optional<Frame> take() RUEDA_EXCLUDES(mutex_);
  bool readable() const { return waiting_.load(std::memory_order_acquire) != 0; }
  Status status() const RUEDA_EXCLUDES(mutex_);
  /// The other rank's name in sentences.
  const std::string& peer() const { return peer_; }

 private:
  const std::string peer_;
  const int rank_;
  const std::function<void()> ring_;
  mutable Mutex mutex_;
  std::deque<Frame> frames_ RUEDA_GUARDED_BY(mutex_);
  Status status_ RUEDA_GUARDED_BY(mutex_);
  std::atomic<size_t> waiting_{0};
};

/// A control link over a fabric. The link itself does not notice a peer's death: the library does, and MPI then ends
/// the whole job.
class FabricControlLink : public ControlLink {
 public:
  FabricControlLink(std::shared_ptr<Fabric> fabric, std::shared_ptr<FabricInbox> inbox, int rank)
      : fabric_(std::move(fabric)), inbox_(std::move(inbox)), rank_(rank) {}
  /// Every frame leaves at once: this side cannot see what the peer expects.
  void send(std::span<const std::byte> frame, Urgency) override;
  bool flush() override { return fabric_->all_sent(rank_, FabricPort::kControl); }
  std::optional<Frame> receive() override { return inbox_->take(); }
  bool readable() const override { return inbox_->readable(); }
  Status status() const override;
  void close_send() override;

 private:
  std::shared_ptr<Fabric> fabric_;
  std::shared_ptr<FabricInbox> inbox_;
  int rank_;
  bool closed_ = false;  ///< by `close_send` or by a frame over the limit
  Status refused_;       ///< that frame
};

}  // namespace rueda::core
