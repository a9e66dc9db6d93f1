// One lane's bytes over MPI. Two threads share it: the lane's gives orders, the MPI thread carries them out.
//
//   lane thread   send, receive, start ─▶ orders ─┐                    until: sent_, received_, finished_ far enough?
//   MPI thread                     take_orders ◀──┘ ─▶ streams, queue ─ MPI ─▶ counts them up, wakes the lane
//
// Orders go through the mutex, progress through atomic counts that only grow: the lane's test costs a load. The lane
// spins for a moment before it sleeps, because two hand-overs between threads lie between an order and its end.
#include "ops/mpi/lane_traffic.h"

#include <sched.h>

namespace rueda::mpi {
namespace {

using core::Deadline;

/// How long a lane spins before it sleeps: a short transfer is over before a sleep would be.
constexpr std::chrono::microseconds kOrderLook{50};
/// How often a sleeping lane looks by itself: a failure of the MPI thread wakes no lane.
constexpr std::chrono::milliseconds kFailureLook{200};
constexpr std::chrono::seconds kGiveUp{10};

}  // namespace

LaneTraffic::LaneTraffic(MpiThread& thread, MPI_Comm comm, int lane, int size,
                         std::unique_ptr<CollectiveQueue> collectives)
    : thread_(thread),
      comm_(comm),
      lane_(lane),
      sent_(std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(size))),
      received_(std::make_unique<std::atomic<uint64_t>[]>(static_cast<size_t>(size))),
      collectives_(std::move(collectives)) {}

void LaneTraffic::send(int rank, std::span<const std::byte> bytes) {
  {
    core::MutexLock lock(mutex_);
    orders_.push_back({rank, bytes, {}});
  }
  thread_.wake();
}

void LaneTraffic::receive(int rank, std::span<std::byte> bytes) {
  {
    core::MutexLock lock(mutex_);
    orders_.push_back({rank, {}, bytes});
  }
  thread_.wake();
}

uint64_t LaneTraffic::start(CollectiveQueue::Order order) {
  uint64_t number = 0;
  {
    core::MutexLock lock(mutex_);
    collective_orders_.push_back(order);
    number = ++started_;
  }
  thread_.wake();
  return number;
}

Status LaneTraffic::look(const std::function<bool()>& ready, const core::Abort& abort, Deadline deadline,
                         bool& done) const {
  if (abort.raised()) return abort.why();
  done = ready();
  if (done) return {};
  RUEDA_RETURN_IF_ERROR(thread_.status());
  if (deadline.passed()) {
    return {Code::kTimeout, "deadline passed in lane " + std::to_string(lane_) + "'s MPI transfers"};
  }
  return {};
}

Status LaneTraffic::until(const std::function<bool()>& ready, const core::Abort& abort, Deadline deadline) {
  const auto spin_end = core::SteadyClock::now() + kOrderLook;
  bool done = false;
  for (;;) {
    uint64_t seen = 0;
    {
      core::MutexLock lock(mutex_);
      seen = moves_;
    }
    RUEDA_RETURN_IF_ERROR(look(ready, abort, deadline, done));
    if (done) return {};
    if (core::SteadyClock::now() < spin_end) {
      ::sched_yield();
      continue;
    }
    core::MutexLock lock(mutex_);
    // Something may have moved between the look and this line; then look again instead of sleeping.
    if (moves_ == seen) changed_.wait_for(mutex_, deadline.left(kFailureLook));
  }
}

void LaneTraffic::wake() {
  core::MutexLock lock(mutex_);
  ++moves_;
  changed_.notify_all();
}

Stream& LaneTraffic::stream(int rank) { return streams_.try_emplace(rank, comm_, rank, lane_).first->second; }

void LaneTraffic::take_orders() {
  std::vector<Order> orders;
  std::vector<CollectiveQueue::Order> collective;
  {
    core::MutexLock lock(mutex_);
    orders.swap(orders_);
    collective.swap(collective_orders_);
  }
  for (const Order& order : orders) {
    if (order.to.empty()) {
      stream(order.rank).send(order.from);
    } else {
      stream(order.rank).receive(order.to);
    }
  }
  for (const CollectiveQueue::Order& order : collective) collectives_->add(order);
}

Status LaneTraffic::move_streams(bool& moved, bool& busy) {
  for (auto& [rank, one] : streams_) {
    if (!one.busy()) continue;
    Stream::Progress progress;
    RUEDA_RETURN_IF_ERROR(one.move(progress));
    const auto at = static_cast<size_t>(rank);
    // Release: a lane that sees the count sees the bytes that MPI has written.
    if (progress.sent > 0) sent_[at].fetch_add(progress.sent, std::memory_order_release);
    if (progress.received > 0) received_[at].fetch_add(progress.received, std::memory_order_release);
    moved |= progress.sent > 0 || progress.received > 0 || progress.started;
    busy |= one.busy();
  }
  return {};
}

Mover::State LaneTraffic::move() {
  if (given_up_) return State::kIdle;
  take_orders();
  bool moved = false, busy = false;
  Status status = move_streams(moved, busy);
  if (status.ok() && collectives_ != nullptr && collectives_->busy()) {
    uint64_t ended = 0;
    status = collectives_->move(ended);
    finished_.fetch_add(ended, std::memory_order_release);
    moved |= ended > 0;
    busy |= collectives_->busy();
  }
  if (!status.ok()) thread_.fail(status);
  if (moved || !status.ok()) wake();
  if (moved) return State::kMoved;
  return busy ? State::kBusy : State::kIdle;
}

bool LaneTraffic::in_transfer() const {
  if (collectives_ != nullptr && collectives_->busy()) return true;
  for (const auto& [rank, one] : streams_) {
    if (one.in_transfer()) return true;
  }
  return false;
}

/// On the MPI thread. A request that MPI has begun cannot be taken back, and MPI writes to its memory whenever it is
/// called: so MPI is called no more, in this whole process.
void LaneTraffic::leave(const Status& why) {
  if (given_up_) return;
  given_up_ = true;
  take_orders();
  if (!in_transfer()) return;
  thread_.fail(Status(
      why.code(), "MPI still had this rank's memory when a batch failed, and is not called again: " + why.sentence()));
}

void LaneTraffic::give_up(const Status& why) {
  const auto leave = [self = shared_from_this(), why] {
    self->leave(why);
    return Status();
  };
  if (!thread_.run(leave, Deadline::after(kGiveUp)).ok()) thread_.fail(why);
}

}  // namespace rueda::mpi
