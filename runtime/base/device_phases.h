#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/base/phase_log.h"

namespace rueda::core {

/// The parts of a batch in the memory of a device, as a timeline shows them: when the device did them.
enum class DevicePhase : uint8_t {
  kPack = 0,      ///< gathers tensors into one buffer, or copies them to the host
  kExchange = 1,  ///< what a library such as NCCL runs on the device; if the batch is staged, what the host does
  kUnpack = 2,    ///< writes results to the tensors: from the buffer, from the host, or divided in place
};
inline constexpr size_t kDevicePhases = 3;
inline constexpr std::array<const char*, kDevicePhases> kDevicePhaseNames = {"device pack", "device exchange",
                                                                             "device unpack"};
using DeviceExtents = std::array<PhaseExtent, kDevicePhases>;

}  // namespace rueda::core
