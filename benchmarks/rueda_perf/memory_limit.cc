// The memory's own speed, as a roof over what any all-reduce can reach: all ranks at once add 1 to every element of
// memory beyond the caches, so each byte is read once and written once. The best of five windows, as other work only
// ever lowers it.
#include "benchmarks/rueda_perf/memory_limit.h"

#include <algorithm>
#include <span>

#include "benchmarks/rueda_perf/buffers.h"
#include "benchmarks/rueda_perf/timing.h"

namespace rueda::perf {
namespace {

constexpr int kWindows = 5;
constexpr std::chrono::milliseconds kWindow{200};

// Reads and writes every element.
[[gnu::noinline]] void pass(std::span<float> elements) {
  for (float& element : elements) element += 1.0f;
}

// One rank's share of a window, in bytes read and written a second. Windows begin together and end by the clock.
double window_GBps(std::span<float> elements) {
  const Clock::time_point begin = Clock::now();
  double bytes = 0;
  Clock::time_point end = begin;
  while (end - begin < kWindow) {
    pass(elements);
    bytes += 2.0 * static_cast<double>(elements.size_bytes());
    end = Clock::now();
  }
  return bytes / (microseconds(end - begin) * 1e3);
}

}  // namespace

double memory_GBps(const Job& job) {
  // Four times the last-level cache in all, and at least 64 MiB for each rank.
  const size_t share = 4 * last_level_cache_bytes() / static_cast<size_t>(job.size());
  const Memory memory(std::max(size_t{64} << 20, share));
  const std::span<float> elements(reinterpret_cast<float*>(memory.data()), memory.bytes() / sizeof(float));
  double best = 0;
  for (int window = 0; window < kWindows; ++window) {
    job.wait_for_all();
    best = std::max(best, job.sum(window_GBps(elements)));
  }
  return best;
}

}  // namespace rueda::perf
