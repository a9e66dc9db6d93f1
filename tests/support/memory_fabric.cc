// A fabric between threads. One thread delivers the oldest frame that has a listener; frames without one stay. It calls
// the handler without the lock, because handlers send, and marks the listener as running, which `stop_listening` waits
// for.
#include "tests/support/memory_fabric.h"

#include <algorithm>

namespace rueda::core {

namespace {

constexpr size_t kLanes = 16;

}  // namespace

/// One rank's.
class MemoryFabric : public Fabric {
 public:
  MemoryFabric(FabricHub& hub, int rank) : hub_(hub), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return hub_.size_; }
  int local_size() const override { return 1; }
  int world_size() const override { return size(); }
  const std::string& offer() const override { return offer_; }
  Status status() const override {
    const std::lock_guard lock(hub_.mutex_);
    return hub_.failure_;
  }
  void listen(FabricPort port, Handler handler) override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.listener(rank_, port).handler = std::move(handler);
    hub_.changed_.notify_all();
  }
  void stop_listening(FabricPort port) override {
    std::unique_lock lock(hub_.mutex_);
    FabricHub::Listener& own = hub_.listener(rank_, port);
    hub_.changed_.wait(lock, [&] { return !own.running; });
    own.handler = nullptr;
  }
  void send(int rank, FabricPort port, std::vector<std::byte> frame) override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.messages_.push_back({rank_, rank, port, std::move(frame)});
    hub_.changed_.notify_all();
  }
  bool all_sent(int, FabricPort) const override { return true; }
  std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) override {
    return hub_.lanes_[static_cast<size_t>(lane)]->channel_set(rank_, abort);
  }
  void wake_all() override {
    for (const auto& lane : hub_.lanes_) lane->wake_all();
  }

 private:
  FabricHub& hub_;
  const int rank_;
  const std::string offer_;
};

FabricHub::FabricHub(int size) : size_(size), listeners_(static_cast<size_t>(size) * kFabricPorts) {
  for (size_t lane = 0; lane < kLanes; ++lane) lanes_.push_back(std::make_unique<MemoryHub>());
  thread_ = std::thread([this] { run(); });
}

FabricHub::~FabricHub() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::shared_ptr<Fabric> FabricHub::fabric(int rank) { return std::make_shared<MemoryFabric>(*this, rank); }

void FabricHub::fail(const Status& why) {
  const std::lock_guard lock(mutex_);
  failure_ = why;
}

size_t FabricHub::waiting() {
  const std::lock_guard lock(mutex_);
  return messages_.size();
}

/// The oldest one for which somebody listens.
bool FabricHub::deliver_next(std::unique_lock<std::mutex>& lock) {
  if (!failure_.ok()) return false;
  const auto next = std::find_if(messages_.begin(), messages_.end(), [&](const Message& message) {
    return listener(message.to, message.port).handler != nullptr;
  });
  if (next == messages_.end()) return false;
  Message message = std::move(*next);
  messages_.erase(next);
  Listener& to = listener(message.to, message.port);
  to.running = true;
  lock.unlock();
  to.handler(message.from, std::move(message.frame));
  lock.lock();
  to.running = false;
  changed_.notify_all();
  return true;
}

void FabricHub::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!deliver_next(lock)) changed_.wait(lock);
  }
}

}  // namespace rueda::core
