// Splits a rank's traffic between a fabric and the transport around which it is built:
//
//                           control: yes      control: no        data: yes      data: no
//   control_link(rank)      fabric            inner transport
//   channel_set(lane)                                            fabric         inner transport
//   poll, watch, unwatch    inner transport: it has the only event loop
#include "runtime/net/fabric_transport.h"

#include <unistd.h>

namespace rueda::core {
namespace {

void ring(int doorbell) {
  const uint64_t one = 1;
  static_cast<void>(!::write(doorbell, &one, sizeof one));
}

}  // namespace

FabricTransport::FabricTransport(std::unique_ptr<Transport> inner, FabricShare share, const TransportEpoch& epoch,
                                 std::span<const int> ranks, int doorbell)
    : inner_(std::move(inner)), share_(std::move(share)) {
  if (!share_.control || ranks.empty()) return;
  for (const int rank : ranks) {
    inboxes_[rank] = std::make_shared<FabricInbox>(epoch.name_of(rank), rank, [doorbell] { ring(doorbell); });
  }
  // The handler shares the inboxes: the fabric's thread may run it until `stop_listening` returns.
  share_.fabric->listen(FabricPort::kControl, [inboxes = inboxes_](int rank, Frame frame) {
    const auto inbox = inboxes.find(rank);  // frames of a rank that shares our memory have no inbox and no sense
    if (inbox != inboxes.end()) inbox->second->put(std::move(frame));
  });
}

FabricTransport::~FabricTransport() {
  if (!inboxes_.empty()) share_.fabric->stop_listening(FabricPort::kControl);
}

std::unique_ptr<ControlLink> FabricTransport::control_link(int rank) {
  const auto inbox = inboxes_.find(rank);
  if (inbox == inboxes_.end()) return inner_->control_link(rank);
  return std::make_unique<FabricControlLink>(share_.fabric, inbox->second, rank);
}

std::unique_ptr<ChannelSet> FabricTransport::channel_set(int lane, const Abort& abort) {
  return share_.data ? share_.fabric->channel_set(lane, abort) : inner_->channel_set(lane, abort);
}

void FabricTransport::wake_all() {
  inner_->wake_all();
  share_.fabric->wake_all();
}

}  // namespace rueda::core
