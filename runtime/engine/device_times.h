#pragma once
#include <memory>
#include <vector>

#include "runtime/base/device_phases.h"
#include "runtime/engine/device_marks.h"

namespace rueda::core {

/// When a device ran the phases of one batch. While the batch is launched, marks with a time go into the device's
/// streams at both ends of each piece of a phase; what they say is asked once the device has finished. Made only while
/// a timeline is recorded. Used by the thread that runs the batch, then by the one that finishes it.
class DeviceTimes {
 public:
  /// A piece that the host has run itself.
  void add(DevicePhase phase, SteadyClock::time_point first, SteadyClock::time_point last);
  /// Returns the phases. What the device tells no time of is left out.
  DeviceExtents extents() const;

 private:
  friend class DevicePhaseScope;
  struct Piece {
    DevicePhase phase;
    std::shared_ptr<const DeviceMark> first, last;  ///< null if the host has run it
    SteadyClock::time_point host_first, host_last;
  };
  std::vector<Piece> pieces_;
};

/// What goes into the stream in a scope belongs to a phase. Does nothing if no timeline is recorded. A mark that cannot
/// be made takes the piece out of the timeline, and nothing else.
class DevicePhaseScope {
 public:
  DevicePhaseScope(const DeviceCall& call, DevicePhase phase, void* stream);
  ~DevicePhaseScope();
  DevicePhaseScope(const DevicePhaseScope&) = delete;
  DevicePhaseScope& operator=(const DevicePhaseScope&) = delete;

 private:
  std::shared_ptr<const DeviceMark> mark() const;

  const DeviceCall& call_;
  DeviceTimes* const times_;  ///< null: nothing is noted
  const DevicePhase phase_;
  void* const stream_;
  std::shared_ptr<const DeviceMark> first_;
};

/// The same for a piece that the host runs.
class HostPieceScope {
 public:
  HostPieceScope(const DeviceCall& call, DevicePhase phase);
  ~HostPieceScope();
  HostPieceScope(const HostPieceScope&) = delete;
  HostPieceScope& operator=(const HostPieceScope&) = delete;

 private:
  DeviceTimes* const times_;
  const DevicePhase phase_;
  SteadyClock::time_point first_;
};

}  // namespace rueda::core
