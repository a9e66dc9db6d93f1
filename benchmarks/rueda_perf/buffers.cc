// Memory that a step works on. Hot: the same buffers in every step. Cold: each step takes the next of so many buffers
// that they fill the last-level cache four times over, so that none is still in it when its turn comes again.
#include "benchmarks/rueda_perf/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

namespace rueda::perf {
namespace {

// Cold buffers of small tensors lie this far apart, so that no prefetcher brings the next one.
constexpr size_t kColdDistance = 4096 + 64;

}  // namespace

// mmap rather than the heap: pages of its own, given back at the end.
Memory::Memory(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
  void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    throw std::runtime_error("no memory for buffers of " + std::to_string(bytes_) + " bytes: " + std::strerror(errno));
  }
  data_ = static_cast<std::byte*>(at);
  std::memset(data_, 1, bytes_);  // a page first written within a step would be timed
}

Memory::~Memory() { ::munmap(data_, bytes_); }

// sysconf(_SC_LEVEL3_CACHE_SIZE) counts a cache ten times on some virtual machines. Others do not tell; 32 MiB is more
// than most cores see.
size_t last_level_cache_bytes() {
  size_t largest = size_t{32} << 10;  // KiB
  for (int index = 0;; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    size_t kib = 0;
    if (!(file >> kib)) return largest << 10;
    largest = std::max(largest, kib);
  }
}

size_t ranks_of_cache(size_t ranks) {
  std::string sharers, online;
  for (int index = 0;; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/shared_cpu_list");
    if (!(file >> sharers)) break;  // the last one is the outermost
  }
  std::ifstream("/sys/devices/system/cpu/online") >> online;
  return !online.empty() && sharers == online ? ranks : 1;
}

Rotation rotation_of(size_t bytes, Buffers buffers, size_t ranks) {
  if (buffers == Buffers::kHot || bytes == 0) return {bytes, 1};
  const size_t stride = std::max((bytes + 63) / 64 * 64, kColdDistance);
  return {stride, std::max<size_t>(2, 4 * last_level_cache_bytes() / ranks / stride + 1)};
}

}  // namespace rueda::perf
