#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/mpi/collectives.h"
#include "ops/mpi/mpi_thread.h"
#include "ops/mpi/stream.h"
#include "runtime/base/abort.h"
#include "runtime/net/channel.h"

namespace rueda::mpi {

/// The transfers of one lane: the lane's thread gives orders, the MPI thread carries them out and counts the bytes that
/// have come through. Shared by the two.
class LaneTraffic : public Mover, public std::enable_shared_from_this<LaneTraffic> {
 public:
  /// `collectives` is null on all lanes but the one that has them.
  LaneTraffic(MpiThread& thread, MPI_Comm comm, int lane, int size, std::unique_ptr<CollectiveQueue> collectives);

  // The lane's thread.
  void send(int rank, std::span<const std::byte> bytes) RUEDA_EXCLUDES(mutex_);
  void receive(int rank, std::span<std::byte> bytes) RUEDA_EXCLUDES(mutex_);
  uint64_t start(CollectiveQueue::Order order) RUEDA_EXCLUDES(mutex_);
  uint64_t sent(int rank) const { return sent_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }
  uint64_t received(int rank) const { return received_[static_cast<size_t>(rank)].load(std::memory_order_acquire); }
  uint64_t finished() const { return finished_.load(std::memory_order_acquire); }
  bool has_collectives() const { return collectives_ != nullptr; }
  /// Blocks until `ready()`. Returns the abort's reason, the MPI thread's failure, or kTimeout at the deadline.
  Status until(const std::function<bool()>& ready, const core::Abort& abort, core::Deadline deadline)
      RUEDA_EXCLUDES(mutex_);
  /// Gives everything up: queued memory is touched no more. If MPI holds some of it, MPI is called no more.
  void give_up(const Status& why);

  /// Makes `until` look again. Any thread.
  void wake() RUEDA_EXCLUDES(mutex_);
  State move() override RUEDA_EXCLUDES(mutex_);

 private:
  struct Order {
    int rank;
    std::span<const std::byte> from;
    std::span<std::byte> to;
  };
  void take_orders() RUEDA_EXCLUDES(mutex_);
  Status move_streams(bool& moved, bool& busy);
  Status look(const std::function<bool()>& ready, const core::Abort& abort, core::Deadline deadline, bool& done) const;
  Stream& stream(int rank);
  bool in_transfer() const;
  void leave(const Status& why);

  MpiThread& thread_;
  const MPI_Comm comm_;
  const int lane_;
  std::unique_ptr<std::atomic<uint64_t>[]> sent_, received_;  ///< by rank
  std::atomic<uint64_t> finished_{0};
  core::Mutex mutex_;
  core::Condition changed_;
  std::vector<Order> orders_ RUEDA_GUARDED_BY(mutex_);
  std::vector<CollectiveQueue::Order> collective_orders_ RUEDA_GUARDED_BY(mutex_);
  uint64_t started_ RUEDA_GUARDED_BY(mutex_) = 0;
  uint64_t moves_ RUEDA_GUARDED_BY(mutex_) = 0;
  // The MPI thread's own.
  std::map<int, Stream> streams_;
  std::unique_ptr<CollectiveQueue> collectives_;
  bool given_up_ = false;
};

}  // namespace rueda::mpi
