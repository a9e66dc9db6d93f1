#pragma once
#include <map>
#include <memory>
#include <span>

#include "runtime/net/fabric_control.h"
#include "runtime/net/transport.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

/// What of a rank's traffic a fabric carries; the rest goes over TCP.
struct FabricShare {
  std::shared_ptr<Fabric> fabric;  ///< null: none
  bool control = false;            ///< agreement between ranks that share no memory
  bool data = false;               ///< the lanes' channels
};

/// `Transport` over a fabric, around another one, which keeps the event loop and whatever the fabric does not carry.
/// Threads and lifetimes as in `Transport`; control links may outlive nothing.
class FabricTransport : public Transport {
 public:
  /// Takes frames for control links to `ranks` from now on. `doorbell`, an eventfd that outlives this, is rung with
  /// each.
  FabricTransport(std::unique_ptr<Transport> inner, FabricShare share, const TransportEpoch& epoch,
                  std::span<const int> ranks, int doorbell);
  ~FabricTransport() override;
  std::unique_ptr<ControlLink> control_link(int rank) override;
  std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) override;
  void wake_all() override;
  void poll(std::chrono::nanoseconds limit) override { inner_->poll(limit); }
  void watch(int fd, std::function<void()> on_ready) override { inner_->watch(fd, std::move(on_ready)); }
  void unwatch(int fd) override { inner_->unwatch(fd); }
  std::vector<SilentPath> silent_paths(std::chrono::nanoseconds limit) override { return inner_->silent_paths(limit); }

 private:
  std::unique_ptr<Transport> inner_;
  FabricShare share_;
  std::map<int, std::shared_ptr<FabricInbox>> inboxes_;  // empty where control goes over TCP
};

}  // namespace rueda::core
