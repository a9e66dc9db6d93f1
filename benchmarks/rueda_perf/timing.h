#pragma once
#include <chrono>
#include <cstddef>
#include <vector>

#include "benchmarks/rueda_perf/entry.h"

namespace rueda::perf {

using Clock = std::chrono::steady_clock;

inline double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// Of one rank's steps; nearest rank. Sorts `times`, which has at least one.
Quantiles quantiles(std::vector<double>& times);

/// Steps of an entry that may take `seconds` if one takes `step_us`: 5 to a million.
size_t steps_within(double seconds, double step_us);

/// Steps before an entry is timed, for `bytes` in all.
size_t usual_warm_up(size_t bytes);

/// Runs `step(i)` for i = 0 .. steps-1 and returns the microseconds of each.
template <typename Step>
std::vector<double> time_steps(size_t steps, Step step) {
  std::vector<double> times(steps);
  Clock::time_point begin = Clock::now();
  for (size_t i = 0; i < steps; ++i) {
    step(i);
    const Clock::time_point end = Clock::now();
    times[i] = microseconds(end - begin);
    begin = end;
  }
  return times;
}

}  // namespace rueda::perf
