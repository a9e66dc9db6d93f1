#pragma once
#include <cstddef>

namespace rueda::perf {

/// What an entry's buffers have been used for before.
enum class Buffers { kHot, kCold };

/// Anonymous memory, touched, unmapped at the end.
class Memory {
 public:
  /// Throws std::runtime_error with the number of bytes.
  explicit Memory(size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_;
  size_t bytes_;
};

/// The positions of buffers, step after step: those of step i begin at (i mod turns) * stride.
struct Rotation {
  size_t stride = 0;
  size_t turns = 1;
  size_t bytes() const { return stride * turns; }
  size_t offset(size_t step) const { return step % turns * stride; }
};

/// For `bytes` a step: one turn if hot; if cold, at least two, and as many as make up 4 times the last-level cache.
/// `ranks`: how many ranks share that cache, this one included. All of them together have so many.
Rotation rotation_of(size_t bytes, Buffers buffers, size_t ranks = 1);

/// The largest cache of the first core, as the kernel says; at least 32 MiB.
size_t last_level_cache_bytes();

/// How many of `ranks` on this machine share a last-level cache: all of them if the machine has one such cache, one if
/// it has several, or if the kernel does not tell.
size_t ranks_of_cache(size_t ranks);

}  // namespace rueda::perf
