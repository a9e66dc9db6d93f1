#pragma once
#include <map>
#include <memory>
#include <span>

#include "runtime/net/fabric_control.h"
#include "runtime/net/transport.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

/// Which part of a rank's traffic a fabric carries; the rest goes over TCP.
struct FabricShare {
  std::shared_ptr<Fabric> fabric;  ///< null if there is none
  bool control = false;            ///< agreement between ranks that share no memory
  bool data = false;               ///< the lanes' channels
};

/// `Transport` over a fabric and another transport, which keeps the event loop and carries what the fabric does not.
/// Threads and lifetimes are those of `Transport`. Control links end before it.
class FabricTransport : public Transport {
 public:
  /// Takes frames for control links to `ranks` from now on, and rings `doorbell` with each: an eventfd that outlives
  /// this object.
  FabricTransport(std::unique_ptr<Transport> inner, FabricShare share, const TransportEpoch& epoch,
                  std::span<const int> ranks, int doorbell);
  ~FabricTransport() override;
  std::unique_ptr<ControlLink> control_link(int rank) override;
  std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) override;
  void wake_all() override;
  void poll(std::chrono::nanoseconds limit) override { inner_->poll(limit); }
  void watch(int fd, std::function<void()> on_ready) override { inner_->watch(fd, std::move(on_ready)); }
  void unwatch(int fd) override { inner_->unwatch(fd); }
  Status fault() const override { return inner_->fault(); }
  std::vector<SilentPath> silent_paths(std::chrono::nanoseconds limit) override { return inner_->silent_paths(limit); }

 private:
  std::unique_ptr<Transport> inner_;
  FabricShare share_;
  std::map<int, std::shared_ptr<FabricInbox>> inboxes_;  // empty if control goes over TCP
};

}  // namespace rueda::core
