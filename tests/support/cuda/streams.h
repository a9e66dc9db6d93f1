#pragma once
#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rueda::test {

/// The number in a variable of the environment; `fallback` if it is not set.
int number(const char* name, int fallback);

/// The time by the clock of all GPUs, in nanoseconds, and how far it is moved on.
int64_t gpu_time();
void skip_gpu_time(int64_t nanoseconds);

/// A point in a stream.
class Point {
 public:
  void pass() {
    const std::lock_guard lock(mutex_);
    passed_ = true;
    time_ = gpu_time();
    changed_.notify_all();
  }
  bool passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }
  /// When it was passed.
  int64_t time() {
    const std::lock_guard lock(mutex_);
    return time_;
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return passed_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool passed_ = false;
  int64_t time_ = 0;
};

/// A queue that a thread works off.
class Stream {
 public:
  Stream(int device, bool blocking);
  int device() const { return device_; }
  /// Whether it and the legacy stream wait for each other.
  bool blocking() const { return blocking_; }
  void put(std::function<void()> work);
  /// A point behind all that was put.
  std::shared_ptr<Point> point();
  /// The thread ends after what was put; the stream lives until then.
  void end();

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool ended = false;
  };
  static void run(std::shared_ptr<Queue> queue);

  const int device_;
  const bool blocking_;
  const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

/// Streams by their handles. Any thread.
class Streams {
 public:
  CUstream make(int device, bool blocking);
  /// Null if the handle was never made or was destroyed. The legacy and the per-thread stream are those of `device`.
  std::shared_ptr<Stream> find(CUstream handle, int device);
  bool destroy(CUstream handle);
  /// Puts work into the stream in its order with the legacy stream.
  void put(const std::shared_ptr<Stream>& stream, std::function<void()> work);
  /// Points behind all that was put into streams of the device.
  std::vector<std::shared_ptr<Point>> all_of(int device);

 private:
  std::shared_ptr<Stream> special(int device, std::thread::id thread, bool blocking);

  std::mutex mutex_;
  std::map<CUstream, std::shared_ptr<Stream>> made_;
  std::map<std::pair<int, std::thread::id>, std::shared_ptr<Stream>> special_;  ///< the legacy one: of no thread
};

/// Delays by seed. Any thread.
void hold();

}  // namespace rueda::test
