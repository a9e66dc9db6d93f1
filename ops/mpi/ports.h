#pragma once
#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "ops/mpi/calls.h"
#include "ops/mpi/mpi_thread.h"
#include "runtime/net/fabric.h"

namespace rueda::mpi {

using core::FabricPort;

/// Frames of a fabric as MPI messages: one message each, the port is its tag. Any thread, but for `move`.
class Ports : public Mover {
 public:
  Ports(MpiThread& thread, MPI_Comm comm, int size);
  void listen(FabricPort port, core::Fabric::Handler handler) RUEDA_EXCLUDES(handlers_mutex_);
  void stop_listening(FabricPort port) RUEDA_EXCLUDES(handlers_mutex_);
  void send(int rank, FabricPort port, std::vector<std::byte> frame) RUEDA_EXCLUDES(mutex_);
  bool all_sent(int rank, FabricPort port) const { return unsent_[index(rank, port)].load() == 0; }
  State move() override RUEDA_EXCLUDES(mutex_, handlers_mutex_);
  /// Nothing is on its way. On the thread.
  bool quiet() const { return leaving_.empty() && arriving_[0].empty() && arriving_[1].empty(); }

 private:
  struct Outgoing {
    int rank;
    FabricPort port;
    std::vector<std::byte> frame;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Incoming {
    int rank;
    std::vector<std::byte> frame;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  static size_t index(int rank, FabricPort port) {
    return static_cast<size_t>(rank) * core::kFabricPorts + static_cast<size_t>(port);
  }
  bool send_queued() RUEDA_EXCLUDES(mutex_);
  bool end_sends();
  bool take(FabricPort port);
  bool hand_over(FabricPort port) RUEDA_EXCLUDES(handlers_mutex_);
  bool failed(int code, const char* function);

  MpiThread& thread_;
  const MPI_Comm comm_;
  std::unique_ptr<std::atomic<size_t>[]> unsent_;  ///< by rank and port
  core::Mutex mutex_;
  std::deque<Outgoing> queue_ RUEDA_GUARDED_BY(mutex_);
  core::Mutex handlers_mutex_;  ///< held while a handler runs, so that `stop_listening` waits for it
  std::array<core::Fabric::Handler, core::kFabricPorts> handlers_ RUEDA_GUARDED_BY(handlers_mutex_);
  std::array<std::atomic<bool>, core::kFabricPorts> listening_{};
  // The thread's own.
  std::deque<Outgoing> leaving_;
  std::array<std::deque<Incoming>, core::kFabricPorts> arriving_;
};

}  // namespace rueda::mpi
