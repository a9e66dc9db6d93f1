// The caller's allocation callback runs as late as it can: on the lane's thread, just before the batch writes, so that
// memory is not held while the operation waits for other ranks. A callback that has no memory must not fail the peers.
// This rank then runs the batch into a sink, and only its own operation fails.
#include "runtime/engine/late_output.h"

#include <fmt/format.h>

namespace rueda::core {

bool needs_output(const TensorPart& tensor) {
  return !tensor.arrives && tensor.slice.out == nullptr && tensor.output_count() > 0 &&
         tensor.operation->spec().allocate != nullptr;
}

/// After the batch has run: until then peers' data goes into the sinks. On a device that is behind the batch's mark. If
/// that order cannot be had, the device has failed, and a sink is left to it.
LateOutputs::~LateOutputs() {
  for (const Sink& sink : sinks_) {
    const DeviceFunctions& device = *sink.spec->device;
    const bool launched = call_ != nullptr && call_->finished != nullptr;
    if (launched &&
        device.order_after(device.context, sink.spec->device_index, call_->finished->token(), sink.stream) != 0)
      continue;
    device.free(device.context, sink.spec->device_index, sink.memory, sink.stream);
  }
}

std::byte* LateOutputs::make_sink(const OperationSpec& spec, size_t bytes) {
  const DeviceFunctions& device = *spec.device;
  void* const stream = device.engine_stream(device.context, spec.device_index, EngineStream::kFromHost);
  sinks_.reserve(sinks_.size() + 1);  // before there is anything to lose
  void* memory = device.allocate(device.context, spec.device_index, bytes, stream);
  if (memory != nullptr) sinks_.push_back({&spec, memory, stream});
  return static_cast<std::byte*>(memory);
}

/// An allocator may hand out memory that work in its stream still uses, as PyTorch's does.
Status mark_late(DeviceCall* call, void* stream) {
  if (call == nullptr) return {};
  const auto mark = make_mark(*call->functions, call->index, stream);
  if (mark.ok()) call->late.push_back(mark.value());
  return mark.status();
}

Status LateOutputs::place(Batch& batch) {
  call_ = batch.device.get();
  for (size_t i = 0; i < batch.tensors.size(); ++i) {
    TensorPart& tensor = *batch.tensors[i];
    if (!needs_output(tensor)) continue;
    const size_t bytes = static_cast<size_t>(tensor.output_count()) * size_of(tensor.request.metadata.dtype);
    tensor.operation->expect_outputs();
    auto* memory = static_cast<std::byte*>(tensor.operation->spec().allocate(bytes));
    if (memory != nullptr) {
      tensor.operation->own_output(static_cast<size_t>(&tensor - tensor.operation->tensors().data()), memory, bytes,
                                   Ownership::kCaller);
      RUEDA_RETURN_IF_ERROR(mark_late(batch.device.get(), tensor.operation->spec().stream));
    } else {
      tensor.failure = Status(
          Code::kSystem,
          fmt::format("the allocation callback could not give {} bytes for the output of {}", bytes, describe(tensor)));
      memory = make_sink(tensor.operation->spec(), bytes);
      if (memory == nullptr) return tensor.failure;  // now the batch itself fails, and with it the epoch
      RUEDA_RETURN_IF_ERROR(mark_late(batch.device.get(), sinks_.back().stream));
    }
    Slice& slice = batch.storage[batch.slots[i]];
    slice.out = memory;
    if (slice.in == nullptr) slice.in = memory;  // a receiver has no input of its own
    if (call_ != nullptr && !call_->own.empty()) batch.device->tensors[call_->own[i]] = slice;
  }
  return {};
}

}  // namespace rueda::core
