// An anchor is an event in a stream that has nothing else to do: the GPU passes it between the host's call and the
// host's first look that finds it passed, microseconds later. The middle of the two is taken for its time. A try in
// which the thread lost its core is told by its length and made again.
#include "ops/cuda/device_clock.h"

#include <thread>

#include "ops/cuda/device.h"

namespace rueda::cuda {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnchorAge = 1s;
/// A try that is no longer is good; after the last one any will do.
constexpr auto kGoodTry = 40us;
constexpr int kTries = 4;
/// A GPU that comes to no anchor in all tries is left alone for a second.
constexpr auto kLongestTry = 20ms;

}  // namespace

std::shared_ptr<const ClockAnchor> DeviceClock::anchor(std::string& why) {
  const std::lock_guard lock(mutex_);
  if (tried_ == Clock::time_point{} || Clock::now() - tried_ > kAnchorAge) {
    latest_ = take(why);
    tried_ = Clock::now();
  }
  if (latest_ == nullptr && why.empty()) why = "the GPU has not come to a mark that times are told by";
  return latest_;
}

std::shared_ptr<const ClockAnchor> DeviceClock::take(std::string& why) {
  if (stream_ == nullptr) {
    const Result<CUstream> taken = device_.take_stream();
    if (!taken.ok()) why = taken.status().sentence();
    if (!taken.ok()) return nullptr;
    stream_ = taken.value();
  }
  Mark* const mark = device_.take_mark(MarkKind::kTimed, why);
  if (mark == nullptr) return nullptr;
  const auto give_back = [device = &device_](const ClockAnchor* anchor) {
    device->give_mark(anchor->mark);
    delete anchor;
  };
  auto made = std::make_unique<ClockAnchor>(ClockAnchor{mark, 0});
  ClockAnchor* const moment = made.get();
  std::shared_ptr<const ClockAnchor> anchor(made.release(), give_back);
  bool known = false;
  for (int i = 0; i < kTries; ++i) {
    Clock::time_point before;
    Clock::time_point after;
    const CUresult met = meet(*mark, before, after);
    if (met != CUDA_SUCCESS && met != CUDA_ERROR_NOT_READY) {
      why = failure_of(device_.driver(), "cuEventQuery", met);
      return nullptr;
    }
    known = met == CUDA_SUCCESS;
    const auto middle = before + (after - before) / 2;
    moment->host_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(middle.time_since_epoch()).count();
    if (known && after - before <= kGoodTry) break;
  }
  return known ? anchor : nullptr;
}

CUresult DeviceClock::meet(const Mark& mark, Clock::time_point& before, Clock::time_point& after) const {
  const Driver& driver = device_.driver();
  before = Clock::now();
  CUresult result = driver.record_event(mark.event, stream_);
  if (result != CUDA_SUCCESS) return result;
  do {
    result = driver.query_event(mark.event);
    after = Clock::now();
    if (result != CUDA_ERROR_NOT_READY) return result;
    std::this_thread::yield();
  } while (after - before < kLongestTry);
  return result;
}

CUresult DeviceClock::time_of(const Mark& mark, int64_t& nanoseconds) const {
  float since_anchor = 0;  // milliseconds
  const CUresult result = device_.driver().elapsed(&since_anchor, mark.anchor->mark->event, mark.event);
  nanoseconds = mark.anchor->host_ns + static_cast<int64_t>(static_cast<double>(since_anchor) * 1e6);
  return result;
}

}  // namespace rueda::cuda
