// Times of a device's work for a timeline. The two ends of a piece are marks of the device's own, so the time between
// the launch and the work, in which a stream waits for the program's kernels, is not in it.
#include "runtime/engine/device_times.h"

#include <algorithm>

namespace rueda::core {
namespace {

/// Returns false if the device does not say.
bool time_of_mark(const DeviceMark& mark, SteadyClock::time_point& time) {
  const DeviceFunctions& functions = mark.functions();
  int64_t nanoseconds = 0;
  if (functions.time_of(functions.context, mark.token(), &nanoseconds) != 0) return false;
  time = SteadyClock::time_point(std::chrono::nanoseconds(nanoseconds));
  return true;
}

}  // namespace

void DeviceTimes::add(DevicePhase phase, SteadyClock::time_point first, SteadyClock::time_point last) {
  pieces_.push_back({phase, nullptr, nullptr, first, last});
}

DeviceExtents DeviceTimes::extents() const {
  DeviceExtents extents{};
  for (const Piece& piece : pieces_) {
    SteadyClock::time_point first = piece.host_first;
    SteadyClock::time_point last = piece.host_last;
    const bool by_host = piece.first == nullptr;
    if (!by_host && !(time_of_mark(*piece.first, first) && time_of_mark(*piece.last, last))) continue;
    last = std::max(first, last);
    PhaseExtent& extent = extents[static_cast<size_t>(piece.phase)];
    const bool is_first = extent.first == SteadyClock::time_point{};
    extent.first = is_first ? first : std::min(extent.first, first);
    extent.last = std::max(extent.last, last);
    extent.busy += last - first;
  }
  return extents;
}

DevicePhaseScope::DevicePhaseScope(const DeviceCall& call, DevicePhase phase, void* stream)
    : call_(call),
      times_(call.functions->mark_time == nullptr ? nullptr : call.times.get()),
      phase_(phase),
      stream_(stream) {
  if (times_ != nullptr) first_ = mark();
}

/// Memory for a piece that is not there costs the timeline a span, and not the program its batch.
DevicePhaseScope::~DevicePhaseScope() {
  if (first_ == nullptr) return;
  try {
    auto last = mark();
    if (last != nullptr) times_->pieces_.push_back({phase_, std::move(first_), std::move(last), {}, {}});
  } catch (const std::bad_alloc&) {
    return;
  }
}

std::shared_ptr<const DeviceMark> DevicePhaseScope::mark() const {
  const DeviceFunctions& functions = *call_.functions;
  uint64_t token = 0;
  if (functions.mark_time(functions.context, call_.index, stream_, &token) != 0) return nullptr;
  return std::make_shared<const DeviceMark>(functions, call_.index, token);
}

HostPieceScope::HostPieceScope(const DeviceCall& call, DevicePhase phase)
    : times_(call.times.get()),
      phase_(phase),
      first_(times_ == nullptr ? SteadyClock::time_point{} : SteadyClock::now()) {}

HostPieceScope::~HostPieceScope() {
  if (times_ == nullptr) return;
  try {
    times_->add(phase_, first_, SteadyClock::now());
  } catch (const std::bad_alloc&) {
    return;
  }
}

}  // namespace rueda::core
