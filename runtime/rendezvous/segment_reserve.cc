// Makes the memory of a segment ahead:
//
//   notice of a plan ─▶ prepare ─▶ thread: limits ─▶ memory, touched ─▶ ends
//   the plan         ─▶ take: joins the thread ─▶ the memory, if it has the size of the plan's segments
//
// The thread that prepares and the one that takes never meet in anything but the join.
#include "runtime/rendezvous/segment_reserve.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/rendezvous/locality.h"
#include "runtime/rendezvous/memory_budget.h"

namespace rueda::core {

SegmentReserve::~SegmentReserve() { drop(); }

void SegmentReserve::prepare(const Settings& settings, int local_size) {
  const int ranks = std::max(1, local_size);
  const size_t bytes = layout_for(settings, ranks).total_bytes();
  MutexLock lock(mutex_);
  if (maker_.joinable()) return;
  static_cast<void>(start_thread(maker_, "that prepares shared memory", [this, bytes, ranks] {
    ::pthread_setname_np(::pthread_self(), "rueda-reserve");
    make(bytes, ranks);
  }));
}

void SegmentReserve::make(size_t bytes, int local_size) {
  if (!may_prepare(memory_limits(), bytes, local_size)) return;
  auto memory = SegmentMemory::make(bytes);
  if (memory.ok()) made_.emplace(std::move(memory).value());
}

bool may_prepare(std::span<const MemoryLimit> limits, size_t bytes, int local_size) {
  const uint64_t needed = (2 * uint64_t{bytes} + kLeastBytes) * static_cast<uint64_t>(local_size);
  return std::all_of(limits.begin(), limits.end(), [&](const MemoryLimit& one) { return one.left_bytes >= needed; });
}

std::optional<SegmentMemory> SegmentReserve::take(size_t bytes) {
  MutexLock lock(mutex_);
  if (!maker_.joinable()) return std::nullopt;
  maker_.join();
  std::optional<SegmentMemory> taken;
  if (made_ && made_->bytes() == bytes) taken.emplace(std::move(*made_));
  made_.reset();
  return taken;
}

std::optional<SegmentMemory> take_prepared(SegmentReserve* reserve, const SegmentLayout& layout) {
  return reserve == nullptr ? std::nullopt : reserve->take(layout.total_bytes());
}

Result<std::shared_ptr<Segment>> create_segment(const SegmentLayout& layout, uint64_t epoch, int rank,
                                                std::optional<SegmentMemory> prepared) {
  if (!prepared) return Segment::create(layout, epoch, rank);
  log(LogLevel::kDebug, "init: the segment of rank {} was prepared", rank);
  return Segment::create_in(std::move(*prepared), layout, epoch, rank);
}

}  // namespace rueda::core
