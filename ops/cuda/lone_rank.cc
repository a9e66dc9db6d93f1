// A set of one rank needs neither NCCL nor a buffer: most of its batches are their own results. A program that is
// written for many ranks is tried out and measured on one.
#include "ops/cuda/lone_rank.h"

#include "runtime/engine/device_marks.h"
#include "runtime/engine/device_times.h"

namespace rueda::cuda {

using core::Call;
using core::OpKind;
using core::Slice;

bool changes_nothing(const Call& call) {
  if (call.team->size() != 1 || !call.device->tensors.empty()) return false;
  return call.kind == OpKind::kBroadcast || (call.kind == OpKind::kAllreduce && keeps_bits(call));
}

core::Status copy_to_outputs(const Call& call, CUstream stream) {
  const core::DeviceFunctions& functions = *call.device->functions;
  const int32_t index = call.device->index;
  for (const Slice& slice : call.slices) {
    if (slice.in == slice.out || slice.count == 0) continue;
    const core::DevicePhaseScope copying(*call.device, core::DevicePhase::kUnpack, stream);
    const size_t bytes = static_cast<size_t>(slice.count) * core::size_of(call.dtype);
    if (functions.copy(functions.context, index, slice.out, slice.in, bytes, stream) != 0) {
      return core::device_error(functions, index, "copy a rank's own tensor to its output");
    }
  }
  return {};
}

}  // namespace rueda::cuda
