// The streams and the memory of the stand-in device, in two kinds:
//   * Lazy: a stream's work happens when somebody waits for it. Rueda does not reach such a device.
//   * OnDriver: streams of the stand-in for libcuda, each a thread that works after random delays, and memory that is
//     given to the next tensor of the same stream at once. Rueda's CUDA plug-in reaches it, with its own streams.
// Positions of streams, of both kinds, are marks.
#pragma once

#include <c10/core/Stream.h>
#include <dlfcn.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <utility>

namespace stand_in {

using c10::Stream;
using Work = std::function<void()>;
using StreamKey = std::pair<c10::DeviceIndex, c10::StreamId>;

// Of the addresses that users see: the processor has none of that form. The stand-in for libcuda has the same.
constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 62;

inline void* moved(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) ^ kElsewhere);
}

inline StreamKey key_of(const Stream& stream) { return {stream.device_index(), stream.id()}; }

// A position in a stream.
struct Mark {
  virtual ~Mark() = default;
  virtual bool passed() = 0;
  virtual void await() = 0;
};

struct Streams {
  virtual ~Streams() = default;
  // Whether work may hold tensors. If not, it ends on a thread that must not free them.
  virtual bool keeps_tensors() const = 0;
  virtual void put(const Stream& stream, Work work) = 0;
  virtual std::shared_ptr<Mark> mark(const Stream& stream) = 0;
  virtual void wait_for(const Stream& stream, std::shared_ptr<Mark> mark) = 0;
  virtual void* handle_of(const Stream& stream) = 0;
  // Memory of zeros for a tensor of this stream, as the host knows it, and its end.
  virtual void* allocate(const Stream& stream, std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  // The memory is used in another stream, too.
  virtual void share(void* memory) = 0;
};

// One lock for all devices and threads. It can be taken again by what a stream does.
class Lazy final : public Streams {
 public:
  bool keeps_tensors() const override { return true; }
  void put(const Stream& stream, Work work) override {
    const std::lock_guard lock(mutex_);
    queues_[key_of(stream)].waiting.push_back(std::move(work));
  }
  std::shared_ptr<Mark> mark(const Stream& stream) override {
    const std::lock_guard lock(mutex_);
    Queue& queue = queues_[key_of(stream)];
    return std::make_shared<Position>(*this, queue, queue.done + queue.waiting.size());
  }
  void wait_for(const Stream& stream, std::shared_ptr<Mark> mark) override {
    put(stream, [mark] { mark->await(); });
  }
  void* handle_of(const Stream&) override { return nullptr; }
  void* allocate(const Stream&, std::size_t bytes) override { return std::calloc(bytes, 1); }
  void free(void* memory) override { std::free(memory); }
  void share(void*) override {}

 private:
  struct Queue {
    std::deque<Work> waiting;
    std::uint64_t done = 0;
  };
  struct Position final : Mark {
    Position(Lazy& all, Queue& its, std::uint64_t behind) : streams(all), queue(its), position(behind) {}
    bool passed() override {
      const std::lock_guard lock(streams.mutex_);
      return queue.done >= position;
    }
    void await() override {
      const std::lock_guard lock(streams.mutex_);
      while (queue.done < position) {
        const Work step = std::move(queue.waiting.front());
        queue.waiting.pop_front();
        queue.done += 1;
        step();
      }
    }
    Lazy& streams;
    Queue& queue;
    const std::uint64_t position;
  };
  std::recursive_mutex mutex_;
  std::map<StreamKey, Queue> queues_;
};

class OnDriver final : public Streams {
 public:
  explicit OnDriver(const char* library) {
    void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) throw std::runtime_error(::dlerror());
    memory_ = reinterpret_cast<decltype(memory_)>(::dlsym(opened, "rueda_standin_memory"));
    stream_ = reinterpret_cast<decltype(stream_)>(::dlsym(opened, "rueda_standin_stream"));
    put_ = reinterpret_cast<decltype(put_)>(::dlsym(opened, "rueda_standin_put"));
  }
  bool keeps_tensors() const override { return false; }
  void put(const Stream& stream, Work work) override {
    put_(
        handle_of(stream), [](void* own) { (*std::unique_ptr<Work>(static_cast<Work*>(own)))(); },
        new Work(std::move(work)));
  }
  std::shared_ptr<Mark> mark(const Stream& stream) override {
    auto made = std::make_shared<Point>();
    put(stream, [made] { made->pass(); });
    return made;
  }
  void wait_for(const Stream& stream, std::shared_ptr<Mark> mark) override {
    put(stream, [mark] { mark->await(); });
  }
  void* handle_of(const Stream& stream) override {
    const std::lock_guard lock(mutex_);
    void*& handle = handles_[key_of(stream)];
    if (handle == nullptr) handle = stream_(stream.device_index());
    return handle;
  }
  // What was in the memory stays there: the driver gives no zeros, and neither does an allocator that keeps memory.
  void* allocate(const Stream& stream, std::size_t bytes) override {
    std::size_t size = 512;
    while (size < bytes) size *= 2;
    const std::lock_guard lock(mutex_);
    auto& free_ones = free_[{key_of(stream), size}];
    if (!free_ones.empty()) {
      void* const again = free_ones.back();
      free_ones.pop_back();
      return again;
    }
    void* const made = moved(memory_(size));
    blocks_[made] = {key_of(stream), size};
    return made;
  }
  void free(void* memory) override {
    const std::lock_guard lock(mutex_);
    if (shared_.count(memory) == 0) free_[blocks_.at(memory)].push_back(memory);
  }
  void share(void* memory) override {
    const std::lock_guard lock(mutex_);
    shared_.insert(memory);
  }

 private:
  struct Point final : Mark {
    bool passed() override {
      const std::lock_guard lock(mutex);
      return done;
    }
    void await() override {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return done; });
    }
    void pass() {
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    }
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  using Block = std::pair<StreamKey, std::size_t>;
  void* (*memory_)(std::size_t);
  void* (*stream_)(int);
  void (*put_)(void*, void (*)(void*), void*);
  std::mutex mutex_;
  std::map<StreamKey, void*> handles_;
  std::map<void*, Block> blocks_;
  std::map<Block, std::deque<void*>> free_;
  std::set<void*> shared_;  // never given again
};

inline Streams& streams() {
  static Streams* const one = []() -> Streams* {
    const char* const library = std::getenv("RUEDA_CUDA_LIBRARY");
    if (library == nullptr) return new Lazy;
    return new OnDriver(library);
  }();
  return *one;
}

}  // namespace stand_in
