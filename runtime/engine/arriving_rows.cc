// In an exchange a rank learns only from its peers' counts how much it gets, so its output finds its memory in the
// midst of the batch. A failure here must not fail the peers: they have sent already, or wait for this rank to read. So
// it is noted in the tensor, the rows are dropped, and the batch goes on.
#include "runtime/engine/arriving_rows.h"

#include <fmt/format.h>

#include <numeric>

#include "runtime/engine/late_output.h"

namespace rueda::core {
namespace {

std::string text_of(const Extents& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Memory of the caller's callback belongs to the caller; the device's memory is freed with the operation.
std::byte* allocate(TensorPart& tensor, DeviceCall* call, size_t bytes) {
  Operation& operation = *tensor.operation;
  const OperationSpec& spec = operation.spec();
  const DeviceFunctions& device = *spec.device;
  const bool calls_back = spec.allocate != nullptr;
  // The library's own memory in the order of a stream of the device's; another stream may be the one that writes to it.
  void* const own_stream =
      calls_back ? nullptr : device.engine_stream(device.context, spec.device_index, EngineStream::kFromHost);
  operation.expect_outputs();
  const auto own = [&] { return device.allocate(device.context, spec.device_index, bytes, own_stream); };
  auto* const memory = static_cast<std::byte*>(calls_back ? spec.allocate(bytes) : own());
  if (memory == nullptr) {
    const std::string what = fmt::format("give {} bytes for the output of {}", bytes, describe(tensor));
    tensor.failure = calls_back ? Status(Code::kSystem, "the allocation callback could not " + what)
                                : device_error(device, spec.device_index, what);
    return nullptr;
  }
  operation.own_output(static_cast<size_t>(&tensor - operation.tensors().data()), memory, bytes,
                       calls_back ? Ownership::kCaller : Ownership::kLibrary);
  tensor.failure = mark_late(call, calls_back ? spec.stream : own_stream);
  return tensor.failure.ok() ? memory : nullptr;
}

}  // namespace

std::byte* ArrivingRows::place(size_t index, std::span<const int64_t> rows) {
  TensorPart& tensor = *tensors_[index];
  tensor.received.assign(rows.begin(), rows.end());
  OutputShape arrived{tensor.request.metadata.shape, 0};
  arrived.shape[0] = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  arrived.count = arrived.shape[0] * tensor.slice.row;
  // Memory that the caller gave has a shape, which must be exactly what arrives.
  if (tensor.slice.out != nullptr && tensor.output->shape != arrived.shape) {
    tensor.failure = Status(Code::kInvalidArgument,
                            fmt::format("{}: the given output has shape {}, but shape {} arrived", describe(tensor),
                                        text_of(tensor.output->shape), text_of(arrived.shape)));
    return nullptr;
  }
  const auto bytes = static_cast<size_t>(arrived.count) * size_of(tensor.request.metadata.dtype);
  tensor.output = std::make_unique<OutputShape>(std::move(arrived));
  if (tensor.slice.out != nullptr || bytes == 0) return tensor.slice.out;
  return allocate(tensor, device_, bytes);
}

}  // namespace rueda::core
