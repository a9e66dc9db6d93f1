// Numbers about times. Quantiles are of the nearest rank: p99 of 100 steps is a step that happened, no interpolation.
#include "benchmarks/rueda_perf/timing.h"

#include <algorithm>
#include <cmath>

namespace rueda::perf {

Quantiles quantiles(std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(times.size())));
    return times[std::max<size_t>(rank, 1) - 1];
  };
  return {at(0.5), at(0.99), times.back()};
}

// At least 5, so that a median means something; at most a million, so that times of tiny steps need few megabytes.
size_t steps_within(double seconds, double step_us) {
  return static_cast<size_t>(std::clamp(seconds * 1e6 / std::max(step_us, 0.01), 5.0, 1e6));
}

// Small steps are many in the time of a large one, and need more to settle.
size_t usual_warm_up(size_t bytes) { return bytes <= (size_t{1} << 20) ? 50 : 4; }

}  // namespace rueda::perf
