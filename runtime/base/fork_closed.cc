// The set of descriptors to close in a forked child, as bits in static memory. Between fork and exec a child of a
// process with threads may use neither locks nor the allocator, so each operation is one atomic instruction on one
// word.
#include "runtime/base/fork_closed.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace rueda::core {
namespace {

/// 8 KiB of zeros. Higher numbers are rare, and are only not closed.
constexpr int kSetSize = 65536;
constexpr int kBits = 64;

std::array<std::atomic<uint64_t>, kSetSize / kBits> g_sets;

bool in_range(int fd) { return fd >= 0 && fd < kSetSize; }
std::atomic<uint64_t>& word_of(int fd) { return g_sets[static_cast<size_t>(fd / kBits)]; }
uint64_t bit_of(int fd) { return uint64_t{1} << (fd % kBits); }

}  // namespace

void close_in_child(int fd) {
  if (in_range(fd)) word_of(fd).fetch_or(bit_of(fd));
}

void keep_in_child(int fd) {
  if (in_range(fd)) word_of(fd).fetch_and(~bit_of(fd));
}

void close_inherited() {
  for (size_t i = 0; i < g_sets.size(); ++i) {
    // Emptied while it is walked: the child may make a session of its own.
    for (uint64_t left = g_sets[i].exchange(0); left != 0; left &= left - 1) {
      ::close(static_cast<int>(i) * kBits + std::countr_zero(left));
    }
  }
}

}  // namespace rueda::core
