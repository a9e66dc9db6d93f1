#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/net/fabric.h"
#include "tests/support/memory_channels.h"

namespace rueda::core {

/// Fabrics for ranks as threads, without a library: frames travel through queues, bytes through a MemoryHub for each
/// lane. One thread delivers the frames of all ranks, as a library's own would. Any thread.
class FabricHub {
 public:
  explicit FabricHub(int size);
  /// Ends after all its fabrics.
  ~FabricHub();
  FabricHub(const FabricHub&) = delete;
  FabricHub& operator=(const FabricHub&) = delete;
  std::shared_ptr<Fabric> fabric(int rank);
  /// From now on nothing is delivered, and every fabric says so.
  void fail(const Status& why);
  /// Frames that were sent while nobody listened, and are still kept.
  size_t waiting();

 private:
  friend class MemoryFabric;
  struct Message {
    int from;
    int to;
    FabricPort port;
    std::vector<std::byte> frame;
  };
  struct Listener {
    Fabric::Handler handler;
    bool running = false;
  };
  Listener& listener(int rank, FabricPort port) {
    return listeners_[static_cast<size_t>(rank) * kFabricPorts + static_cast<size_t>(port)];
  }
  bool deliver_next(std::unique_lock<std::mutex>& lock);
  void run();

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<MemoryHub>> lanes_;
  Status failure_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace rueda::core
