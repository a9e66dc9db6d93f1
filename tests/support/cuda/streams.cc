// Streams of the stand-in: a thread works each off in order, after a delay that a seed decides. The legacy stream and
// streams that are made blocking wait for each other, as CUDA's do.
#include "tests/support/cuda/streams.h"

#include <atomic>
#include <chrono>
#include <cstdlib>

namespace rueda::test {

int number(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::atoi(text);
}

namespace {
std::atomic<int64_t> skipped{86'400'000'000'000};  // a GPU's clock is not the host's
}

int64_t gpu_time() { return std::chrono::steady_clock::now().time_since_epoch().count() + skipped.load(); }
void skip_gpu_time(int64_t nanoseconds) { skipped.fetch_add(nanoseconds); }

/// The time itself is the point: work that nothing orders comes at another moment with each seed.
void hold() {
  static const unsigned most = static_cast<unsigned>(number("STANDIN_CUDA_DELAY_US", 0));
  static std::atomic<unsigned> seed{static_cast<unsigned>(number("STANDIN_CUDA_SEED", 1))};
  if (most == 0) return;
  unsigned mixed = seed.fetch_add(0x9E3779B9u);
  mixed = (mixed ^ (mixed >> 16)) * 0x7feb352du;
  mixed ^= mixed >> 15;
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, std::chrono::microseconds(mixed % most));
}

Stream::Stream(int device, bool blocking) : device_(device), blocking_(blocking) {
  std::thread([queue = queue_] { run(queue); }).detach();
}

void Stream::run(std::shared_ptr<Queue> queue) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(queue->mutex);
      queue->changed.wait(lock, [&] { return queue->ended || !queue->work.empty(); });
      if (queue->work.empty()) return;
      work = std::move(queue->work.front());
      queue->work.pop_front();
    }
    hold();
    work();
  }
}

void Stream::put(std::function<void()> work) {
  const std::lock_guard lock(queue_->mutex);
  queue_->work.push_back(std::move(work));
  queue_->changed.notify_all();
}

std::shared_ptr<Point> Stream::point() {
  auto point = std::make_shared<Point>();
  put([point] { point->pass(); });
  return point;
}

void Stream::end() {
  const std::lock_guard lock(queue_->mutex);
  queue_->ended = true;
  queue_->changed.notify_all();
}

CUstream Streams::make(int device, bool blocking) {
  auto stream = std::make_shared<Stream>(device, blocking);
  const auto handle = reinterpret_cast<CUstream>(stream.get());
  const std::lock_guard lock(mutex_);
  made_.emplace(handle, std::move(stream));
  return handle;
}

std::shared_ptr<Stream> Streams::special(int device, std::thread::id thread, bool blocking) {
  const std::lock_guard lock(mutex_);
  auto& stream = special_[{device, thread}];
  if (stream == nullptr) stream = std::make_shared<Stream>(device, blocking);
  return stream;
}

std::shared_ptr<Stream> Streams::find(CUstream handle, int device) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return special(device, {}, true);
  if (handle == CU_STREAM_PER_THREAD) return special(device, std::this_thread::get_id(), true);
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(handle);
  return found == made_.end() ? nullptr : found->second;
}

bool Streams::destroy(CUstream handle) {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(handle);
  if (found == made_.end()) return false;
  found->second->end();
  // Kept, so that no later stream has the same handle and hides that this one is used after its end.
  static auto* const ended = new std::vector<std::shared_ptr<Stream>>;
  ended->push_back(found->second);
  made_.erase(found);
  return true;
}

void Streams::put(const std::shared_ptr<Stream>& stream, std::function<void()> work) {
  if (stream->blocking()) {
    const std::shared_ptr<Stream> legacy = special(stream->device(), {}, true);
    std::vector<std::shared_ptr<Point>> before;
    if (stream != legacy) {
      before.push_back(legacy->point());
    } else {
      const std::lock_guard lock(mutex_);
      for (const auto& [handle, other] : made_) {
        if (other->blocking() && other->device() == stream->device()) before.push_back(other->point());
      }
      for (const auto& [key, other] : special_) {
        if (other != legacy && key.first == stream->device()) before.push_back(other->point());
      }
    }
    stream->put([before] {
      for (const auto& point : before) point->await();
    });
  }
  stream->put(std::move(work));
}

std::vector<std::shared_ptr<Point>> Streams::all_of(int device) {
  std::vector<std::shared_ptr<Point>> points;
  const std::lock_guard lock(mutex_);
  for (const auto& [handle, stream] : made_) {
    if (stream->device() == device) points.push_back(stream->point());
  }
  for (const auto& [key, stream] : special_) {
    if (key.first == device) points.push_back(stream->point());
  }
  return points;
}

}  // namespace rueda::test
