// A fabric over MPI: frames of the control plane through `Ports`, bytes of lanes through one `LaneTraffic` each, all of
// them movers on the process's one MPI thread.
//
//   lane thread ── MpiChannel(Set) ─ orders ─▶ LaneTraffic ─┐
//   other lanes ──                                          ├─ moved by ─▶ MpiThread ─▶ MPI
//   coordinator ── MpiFabric ─ frames ───────▶ Ports ───────┘
//
// The end comes in this order: the last frames leave, then the mover is dropped, then the communicators are retired. A
// frame that is still queued when its communicator goes would never reach a peer that waits for it.
#include "ops/mpi/fabric.h"

#include <map>

#include "runtime/net/collectives.h"

namespace rueda::mpi {
namespace {

using core::Deadline;
using core::Result;

/// The one lane with MPI's collectives. They need all ranks, and only the global process set, on lane 0, surely has
/// all.
constexpr int kCollectiveLane = 0;
/// The time that the last frames may take to leave.
constexpr std::chrono::seconds kLastFrames{5};

class MpiChannel : public core::Channel {
 public:
  MpiChannel(LaneTraffic& traffic, int rank) : traffic_(traffic), rank_(rank) {}
  void send(std::span<const std::byte> bytes) override {
    if (!bytes.empty()) traffic_.send(rank_, bytes);
  }
  void receive(std::span<std::byte> bytes) override {
    if (!bytes.empty()) traffic_.receive(rank_, bytes);
  }
  uint64_t sent() const override { return traffic_.sent(rank_); }
  uint64_t received() const override { return traffic_.received(rank_); }

 private:
  LaneTraffic& traffic_;
  const int rank_;
};

/// The lane's end of its traffic, and of its collectives.
class MpiChannelSet : public core::ChannelSet, private core::Collectives {
 public:
  MpiChannelSet(MpiThread& thread, std::shared_ptr<LaneTraffic> traffic, int rank, int size, const core::Abort& abort)
      : thread_(thread), traffic_(std::move(traffic)), rank_(rank), size_(size), abort_(abort) {
    thread_.add(traffic_);
  }
  ~MpiChannelSet() override {
    traffic_->give_up(Status(Code::kShutDown, "the lane has ended"));
    thread_.drop(traffic_.get());
  }
  MpiChannelSet(const MpiChannelSet&) = delete;
  MpiChannelSet& operator=(const MpiChannelSet&) = delete;

  Result<core::Channel*> to(int rank, Deadline) override {
    if (!failure_.ok()) return failure_;
    if (rank < 0 || rank >= size_ || rank == rank_) {
      return Status(Code::kInvalidArgument, "rank " + std::to_string(rank_) + ": no channel to rank " +
                                                std::to_string(rank) + " of " + std::to_string(size_));
    }
    auto& slot = channels_[rank];
    if (slot == nullptr) slot = std::make_unique<MpiChannel>(*traffic_, rank);  // no dial: MPI connects at first use
    return slot.get();
  }

  Status until(const std::function<bool()>& ready, Deadline deadline) override {
    if (!failure_.ok()) return failure_;
    const Status waited = traffic_->until(ready, abort_, deadline);
    if (waited.ok()) return {};
    const Status why(waited.code(), "rank " + std::to_string(rank_) + ": " + waited.sentence(), waited.rank());
    give_up(abort_.raised() ? abort_.why() : why);
    return failure_;
  }

  /// MPI may still hold buffers of the batch that has failed.
  void give_up(const Status& why) override {
    if (!failure_.ok()) return;
    failure_ = why;
    traffic_->give_up(why);
  }

  void poll() override {}
  bool moves_in_poll() const override { return false; }  // the MPI thread does not wait to be asked
  void wake() override { traffic_->wake(); }
  core::Collectives* collectives() override { return traffic_->has_collectives() ? this : nullptr; }

 private:
  uint64_t allreduce(core::Dtype dtype, core::ReduceOp op, std::byte* data, int64_t count) override {
    return traffic_->start({-1, dtype, op, data, count});
  }
  uint64_t broadcast(int root, std::span<std::byte> data) override {
    return traffic_->start(
        {root, core::Dtype::kU8, core::ReduceOp::kSum, data.data(), static_cast<int64_t>(data.size())});
  }
  uint64_t finished() const override { return traffic_->finished(); }

  MpiThread& thread_;
  const std::shared_ptr<LaneTraffic> traffic_;
  const int rank_;
  const int size_;
  const core::Abort& abort_;
  Status failure_;
  std::map<int, std::unique_ptr<MpiChannel>> channels_;
};

}  // namespace

MpiFabric::MpiFabric(MpiThread& thread, const Joined& joined, const Reductions& reductions)
    : thread_(thread),
      joined_(joined),
      reductions_(reductions),
      ports_(std::make_shared<Ports>(thread, joined.frames, joined.size)) {
  thread_.add(ports_);
}

/// Moves its own frames while it waits, because it holds the thread that would move them.
MpiFabric::~MpiFabric() {
  const auto leave = [&thread = thread_, ports = ports_, deadline = Deadline::after(kLastFrames)] {
    const auto begin = std::chrono::steady_clock::now();
    while (thread.status().ok() && !deadline.passed()) {
      static_cast<void>(ports->move());
      if (ports->quiet()) break;
      thread.pause(begin);
    }
    return Status();
  };
  static_cast<void>(thread_.run(leave, Deadline::after(2 * kLastFrames)));
  thread_.drop(ports_.get());
  if (!thread_.status().ok()) return;
  const auto retire = [&thread = thread_, joined = joined_]() mutable {
    thread.retired().add(joined.frames, joined.bytes);
    return checked(MPI_Comm_free(&joined.collectives), "MPI_Comm_free");
  };
  static_cast<void>(thread_.run(retire, Deadline::after(kLastFrames)));
}

/// All lanes share one communicator for bytes: the lane is the tag.
std::unique_ptr<core::ChannelSet> MpiFabric::channel_set(int lane, const core::Abort& abort) {
  auto collectives =
      lane == kCollectiveLane ? std::make_unique<CollectiveQueue>(joined_.collectives, reductions_) : nullptr;
  auto traffic = std::make_shared<LaneTraffic>(thread_, joined_.bytes, lane, joined_.size, std::move(collectives));
  {
    core::MutexLock lock(mutex_);
    lanes_.push_back(traffic);
  }
  return std::make_unique<MpiChannelSet>(thread_, std::move(traffic), joined_.rank, joined_.size, abort);
}

void MpiFabric::wake_all() {
  core::MutexLock lock(mutex_);
  for (const auto& lane : lanes_) {
    if (const auto traffic = lane.lock()) traffic->wake();
  }
}

}  // namespace rueda::mpi
