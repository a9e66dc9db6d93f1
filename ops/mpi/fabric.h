#pragma once
#include <memory>
#include <vector>

#include "ops/mpi/joining.h"
#include "ops/mpi/lane_traffic.h"
#include "ops/mpi/ports.h"

namespace rueda::mpi {

/// A fabric over MPI communicators of its own.
class MpiFabric : public core::Fabric {
 public:
  MpiFabric(MpiThread& thread, const Joined& joined, const Reductions& reductions);
  ~MpiFabric() override;
  int rank() const override { return joined_.rank; }
  int size() const override { return joined_.size; }
  int local_size() const override { return joined_.local_size; }
  int world_size() const override { return joined_.world_size; }
  const std::string& offer() const override { return joined_.offer; }
  Status status() const override { return thread_.status(); }
  void listen(FabricPort port, Handler handler) override { ports_->listen(port, std::move(handler)); }
  void stop_listening(FabricPort port) override { ports_->stop_listening(port); }
  void send(int rank, FabricPort port, std::vector<std::byte> frame) override {
    ports_->send(rank, port, std::move(frame));
  }
  bool all_sent(int rank, FabricPort port) const override {
    return ports_->all_sent(rank, port) || !thread_.status().ok();
  }
  std::unique_ptr<core::ChannelSet> channel_set(int lane, const core::Abort& abort) override;
  void wake_all() override RUEDA_EXCLUDES(mutex_);

 private:
  MpiThread& thread_;
  const Joined joined_;
  const Reductions& reductions_;
  const std::shared_ptr<Ports> ports_;
  core::Mutex mutex_;
  std::vector<std::weak_ptr<LaneTraffic>> lanes_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::mpi
