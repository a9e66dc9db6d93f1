#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "ops/cuda/driver.h"

namespace rueda::cuda {

class Device;
struct Mark;

/// A moment that the GPU and the host both know the time of.
struct ClockAnchor {
  Mark* mark;       ///< with the GPU's time
  int64_t host_ns;  ///< the same moment by the host's steady clock
};

/// Tells when a GPU passed a mark, by the clock of the host. The driver tells only how much time lies between two
/// marks, as a float of milliseconds; so one of them is an anchor, and a new one is taken each second: then the float
/// and the drift of the two clocks are well below a microsecond. Any thread, with the device's context current.
class DeviceClock {
 public:
  /// `device` owns it.
  explicit DeviceClock(Device& device) : device_(device) {}
  /// Returns an anchor from before now. Takes a new one if the last is a second old, which waits for the GPU for some
  /// microseconds, and for 80 ms at most; null, with `why`, if the GPU does not come to it.
  std::shared_ptr<const ClockAnchor> anchor(std::string& why);
  /// Writes the time of a mark that was made with an anchor and has been passed.
  CUresult time_of(const Mark& mark, int64_t& nanoseconds) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<const ClockAnchor> take(std::string& why);
  CUresult meet(const Mark& mark, Clock::time_point& before, Clock::time_point& after) const;

  Device& device_;
  std::mutex mutex_;
  CUstream stream_{};                          ///< under the mutex, as the next: empty but for anchors
  std::shared_ptr<const ClockAnchor> latest_;  ///< null if the last try failed
  Clock::time_point tried_{};
};

}  // namespace rueda::cuda
