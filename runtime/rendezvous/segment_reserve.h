#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "runtime/base/memory_limits.h"
#include "runtime/base/mutex.h"
#include "runtime/base/settings.h"
#include "runtime/net/segment.h"

namespace rueda::core {

/// Memory for the segment of the next epoch, made while the present one still works. The first touch of a page takes a
/// microsecond or two, and ten on a virtual machine whose host has yet to find the page: 8 MiB took the ranks of a host
/// 50 ms, in which all waited. Every member may be called from any thread.
class SegmentReserve {
 public:
  SegmentReserve() = default;
  ~SegmentReserve();
  SegmentReserve(const SegmentReserve&) = delete;
  SegmentReserve& operator=(const SegmentReserve&) = delete;

  /// Begins to make the memory that a rank needs in an epoch of these settings with `local_size` ranks on its host; 0
  /// counts as 1. A thread of its own ("rueda-reserve") makes it. Does nothing if this was called since the last
  /// `take`, if a memory limit leaves no room (`may_prepare`), or if the system has no memory or no thread: the segment
  /// is then made when it is needed. Waits only for a `take` on another thread.
  void prepare(const Settings& settings, int local_size);
  /// Returns what was prepared if it has so many bytes, and keeps nothing. Waits for it if it is under way.
  std::optional<SegmentMemory> take(size_t bytes);
  /// Gives back what was prepared. Waits as `take`.
  void drop() { take(0); }

 private:
  void make(size_t bytes, int local_size);

  Mutex mutex_;
  std::thread maker_ RUEDA_GUARDED_BY(mutex_);  ///< joined by `take`
  std::optional<SegmentMemory> made_;           ///< the maker's until it was joined, then that of `take`
};

/// Returns whether the limits leave room for two segments of `bytes` on each of `local_size` ranks, which all prepare
/// one at the same time. A neighbour that has prepared none asks for the room of one when the epoch is formed.
bool may_prepare(std::span<const MemoryLimit> limits, size_t bytes, int local_size);

/// Returns what the reserve has for a segment of this layout. `reserve` may be null.
std::optional<SegmentMemory> take_prepared(SegmentReserve* reserve, const SegmentLayout& layout);
/// Makes a segment in `prepared`, or in new memory if there is none. Errors as `Segment::create`.
Result<std::shared_ptr<Segment>> create_segment(const SegmentLayout& layout, uint64_t epoch, int rank,
                                                std::optional<SegmentMemory> prepared);

}  // namespace rueda::core
