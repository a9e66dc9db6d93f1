// The fake asynchronous device: a row of the engine's device table over streams that run when the test lets them.
#include "tests/support/plugins/fake_device.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/plugins/fake_device_row.h"

namespace rueda::test {
namespace {

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    enqueue({});
    thread_.join();
  }
  void enqueue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  /// An empty item ends it.
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !queue_.empty(); });
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (!work) return;
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::thread thread_;
};

Stream& stream_of(void* stream) { return *static_cast<Stream*>(stream); }

class QueueDevice : public FakeDevice {
 public:
  void* make_stream() override { return new Stream; }
  void end_stream(void* stream) override { delete static_cast<Stream*>(stream); }
  void enqueue(void* stream, std::function<void()> work) override { stream_of(stream).enqueue(std::move(work)); }
  void drain(void* stream) override {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    stream_of(stream).enqueue([&] {
      const std::lock_guard lock(mutex);
      reached = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return reached; });
  }
  FakeDeviceCounts counts() override {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void await_early_polls(int count) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return counts_.polls_too_early >= count; });
  }
  void watch_completion(void* stream, std::function<double()> look) override {
    const std::lock_guard lock(mutex_);
    looks_[stream] = std::move(look);
  }
  double seen_at_completion(void* stream) override {
    const std::lock_guard lock(mutex_);
    return seen_[stream];
  }

  uint64_t mark_at_enqueue(void* stream) {
    const uint64_t mark = new_mark();
    const std::lock_guard lock(mutex_);
    ++counts_.marks_at_enqueue;
    stream_of(stream).enqueue([this, mark] { pass(mark); });
    return mark;
  }
  uint64_t mark_at_completion(void* stream) {
    const uint64_t mark = new_mark();
    const std::lock_guard lock(mutex_);
    ++counts_.marks_at_completion;
    passed_.insert(mark);
    if (const auto look = looks_.find(stream); look != looks_.end()) seen_[stream] = look->second();
    return mark;
  }
  void order() {
    const std::lock_guard lock(mutex_);
    ++counts_.orders;
  }
  bool poll(uint64_t mark) {
    const std::lock_guard lock(mutex_);
    ++counts_.polls;
    if (passed_.contains(mark)) return true;
    ++counts_.polls_too_early;
    changed_.notify_all();
    return false;
  }
  void free_mark() {
    const std::lock_guard lock(mutex_);
    --counts_.marks_alive;
  }
  void memory_changed(int by) {
    const std::lock_guard lock(mutex_);
    counts_.memory_alive += by;
  }

 private:
  uint64_t new_mark() {
    const std::lock_guard lock(mutex_);
    ++counts_.marks_alive;
    return ++last_mark_;
  }
  void pass(uint64_t mark) {
    const std::lock_guard lock(mutex_);
    passed_.insert(mark);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  FakeDeviceCounts counts_;
  uint64_t last_mark_ = 0;
  std::set<uint64_t> passed_;
  std::map<void*, std::function<double()>> looks_;
  std::map<void*, double> seen_;
};

QueueDevice& device() {
  static QueueDevice one;
  return one;
}

const rueda_host* memory_host = nullptr;

int32_t at_enqueue(void*, int32_t, void* stream, uint64_t* token) {
  *token = device().mark_at_enqueue(stream);
  return 0;
}
int32_t order_after(void*, uint64_t, void*) {
  device().order();
  return 0;
}
int32_t at_completion(void*, int32_t, void* stream, uint64_t* token) {
  *token = device().mark_at_completion(stream);
  return 0;
}
int32_t poll(void*, uint64_t token) { return device().poll(token) ? 1 : 0; }
void free_token(void*, uint64_t) { device().free_mark(); }
void* allocate(void*, int32_t, size_t bytes, void*) {
  device().memory_changed(1);
  return memory_host->allocate(bytes);
}
void release(void*, int32_t, void* memory) {
  device().memory_changed(-1);
  memory_host->release(memory);
}

}  // namespace

const core::DeviceRow* fake_device_row(const rueda_host* host) {
  memory_host = host;
  static const core::DeviceRow row{sizeof(core::DeviceRow), "fake", nullptr,    kFakeDevice, at_enqueue, order_after,
                                   at_completion,           poll,   free_token, allocate,    release};
  return &row;
}

}  // namespace rueda::test

extern "C" __attribute__((visibility("default"))) rueda::test::FakeDevice* rueda_test_fake_device() {
  return &rueda::test::device();
}
