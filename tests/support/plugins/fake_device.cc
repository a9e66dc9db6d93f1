// The fake asynchronous device: an entry of the engine's device table over streams that run when the test lets them.
#include "tests/support/plugins/fake_device.h"

#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "tests/support/plugins/fake_device_functions.h"

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
  uint64_t mark(void* stream) {
    const uint64_t mark = new_mark();
    stream_of(stream).enqueue([this, mark] { pass(mark); });
    return mark;
  }
  /// The stream waits; the thread that works it off sleeps.
  void order(uint64_t mark, void* stream) {
    {
      const std::lock_guard lock(mutex_);
      ++counts_.orders;
    }
    stream_of(stream).enqueue([this, mark] { await(mark); });
  }
  void notify(uint64_t mark, int asker, std::function<void()> call) {
    Stream& stream = notices_[static_cast<size_t>(asker)];
    stream.enqueue([this, mark, told = std::move(call)] {
      await(mark);
      told();
    });
  }
  void* engine_stream(int which) override { return &engine_[static_cast<size_t>(which)]; }
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
    ++counts_.marks;
    ++counts_.marks_alive;
    return ++last_mark_;
  }
  void pass(uint64_t mark) {
    const std::lock_guard lock(mutex_);
    passed_.insert(mark);
    changed_.notify_all();
  }
  void await(uint64_t mark) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passed_.contains(mark); });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  FakeDeviceCounts counts_;
  uint64_t last_mark_ = 0;
  std::set<uint64_t> passed_;
  std::array<Stream, 2> engine_;  ///< last, so that they end before what they use
  std::array<Stream, 2> notices_;
};

QueueDevice& device() {
  static auto* const one = new QueueDevice;  // never ended: its streams may wait for marks that never come
  return *one;
}

const rueda_host* memory_host = nullptr;

void why(void*, char* text, size_t capacity) { std::snprintf(text, capacity, "the fake device failed"); }
int32_t describe(void*, char* text, size_t capacity) {
  std::snprintf(text, capacity, "a fake device");
  return 0;
}
int32_t mark(void*, int32_t, void* stream, uint64_t* token) {
  *token = device().mark(stream);
  return 0;
}
int32_t order_after(void*, int32_t, uint64_t token, void* stream) {
  device().order(token, stream);
  return 0;
}
int32_t poll(void*, uint64_t token) { return device().poll(token) ? 1 : 0; }
int32_t notify(void*, uint64_t token, core::MarkAsker asker, void (*passed)(void*), void* argument) {
  device().notify(token, static_cast<int>(asker), [passed, argument] { passed(argument); });
  return 0;
}
void free_token(void*, uint64_t) { device().free_mark(); }
int32_t shareable(void*, void*) { return 1; }
void* engine_stream(void*, int32_t, core::EngineStream which) {
  return device().engine_stream(static_cast<int>(which));
}
int32_t copy(void*, int32_t, void* to, const void* from, size_t bytes, void* stream) {
  stream_of(stream).enqueue([=] { std::memcpy(to, from, bytes); });
  return 0;
}
void* allocate(void*, int32_t, size_t bytes, void*) {
  device().memory_changed(1);
  return memory_host->allocate(bytes);
}
/// In the stream's order, as what is in it may write there.
void release(void*, int32_t, void* memory, void* stream) {
  stream_of(stream).enqueue([memory] {
    device().memory_changed(-1);
    memory_host->release(memory);
  });
}
void* allocate_pinned(void*, int32_t, size_t bytes) { return memory_host->allocate(bytes); }
void free_pinned(void*, int32_t, void* memory, size_t) { memory_host->release(memory); }

}  // namespace

const core::DeviceFunctions* fake_device_functions(const rueda_host* host) {
  memory_host = host;
  static const core::DeviceFunctions functions{sizeof(core::DeviceFunctions),
                                               "fake",
                                               nullptr,
                                               kFakeDevice,
                                               why,
                                               describe,
                                               mark,
                                               order_after,
                                               poll,
                                               notify,
                                               free_token,
                                               shareable,
                                               engine_stream,
                                               copy,
                                               allocate,
                                               release,
                                               allocate_pinned,
                                               free_pinned};
  return &functions;
}

}  // namespace rueda::test

extern "C" __attribute__((visibility("default"))) rueda::test::FakeDevice* rueda_test_fake_device() {
  return &rueda::test::device();
}
