// Channels between threads through one table of pipes under one mutex. Bytes move when a send and a receive are both
// queued, in the thread that queued the second one, so nothing is buffered and `poll` has nothing to do.
#include "tests/support/memory_channels.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rueda::core {

class MemoryChannel : public Channel {
 public:
  MemoryChannel(MemoryHub& hub, int from, int to) : hub_(hub), from_(from), to_(to) {}
  void send(std::span<const std::byte> bytes) override {
    if (bytes.empty()) return;
    MutexLock lock(hub_.mutex_);
    MemoryHub::Pipe& pipe = hub_.pipe(from_, to_);
    pipe.sending.push_back(bytes);
    hub_.move(pipe);
  }
  void receive(std::span<std::byte> bytes) override {
    if (bytes.empty()) return;
    MutexLock lock(hub_.mutex_);
    MemoryHub::Pipe& pipe = hub_.pipe(to_, from_);
    pipe.receiving.push_back(bytes);
    hub_.move(pipe);
  }
  uint64_t sent() const override { return hub_.moved(from_, to_); }
  uint64_t received() const override { return hub_.moved(to_, from_); }

 private:
  MemoryHub& hub_;
  int from_;
  int to_;
};

class MemoryChannelSet : public ChannelSet {
 public:
  MemoryChannelSet(MemoryHub& hub, int rank, const Abort& abort) : hub_(hub), rank_(rank), abort_(abort) {}
  Result<Channel*> to(int rank, Deadline) override {
    auto& channel = channels_[rank];
    if (channel == nullptr) channel = std::make_unique<MemoryChannel>(hub_, rank_, rank);
    return channel.get();
  }
  Status until(const std::function<bool()>& ready, Deadline deadline) override {
    Status failure;
    for (;;) {
      const uint64_t seen = changes();
      if (abort_.raised()) {
        failure = abort_.why();
      } else if (ready()) {
        return {};
      } else if (deadline.passed()) {
        failure = Status(Code::kTimeout, "rank " + std::to_string(rank_) + ": deadline passed");
      }
      if (!failure.ok()) {
        hub_.forget(rank_);  // the caller's memory goes with its batch
        return failure;
      }
      await_change(seen, deadline);
    }
  }
  void poll() override {}  // bytes move when both sides have queued
  void wake() override { hub_.wake_all(); }

 private:
  uint64_t changes() {
    MutexLock lock(hub_.mutex_);
    return hub_.changes_;
  }
  void await_change(uint64_t seen, Deadline deadline) {
    MutexLock lock(hub_.mutex_);
    const auto end = SteadyClock::now() + deadline.left(std::chrono::seconds(1));
    while (hub_.changes_ == seen && hub_.changed_.wait_until(hub_.mutex_, end) == std::cv_status::no_timeout) {
    }
  }

  MemoryHub& hub_;
  int rank_;
  const Abort& abort_;
  std::map<int, std::unique_ptr<MemoryChannel>> channels_;
};

std::unique_ptr<ChannelSet> MemoryHub::channel_set(int rank, const Abort& abort) {
  return std::make_unique<MemoryChannelSet>(*this, rank, abort);
}

void MemoryHub::wake_all() {
  MutexLock lock(mutex_);
  ++changes_;
  changed_.notify_all();
}

void MemoryHub::forget(int rank) {
  MutexLock lock(mutex_);
  for (auto& [ends, pipe] : pipes_) {
    if (ends.first == rank) pipe.sending.clear();
    if (ends.second == rank) pipe.receiving.clear();
  }
}

uint64_t MemoryHub::moved(int from, int to) const {
  MutexLock lock(mutex_);
  const auto found = pipes_.find({from, to});
  return found == pipes_.end() ? 0 : found->second.moved;
}

void MemoryHub::move(Pipe& pipe) {
  while (!pipe.sending.empty() && !pipe.receiving.empty()) {
    auto& from = pipe.sending.front();
    auto& into = pipe.receiving.front();
    const size_t bytes = std::min(from.size(), into.size());
    if (moves_ == Moves::kBytes) std::memcpy(into.data(), from.data(), bytes);
    pipe.moved += bytes;
    from = from.subspan(bytes);
    into = into.subspan(bytes);
    if (from.empty()) pipe.sending.pop_front();
    if (into.empty()) pipe.receiving.pop_front();
    ++changes_;
    changed_.notify_all();
  }
}

}  // namespace rueda::core
