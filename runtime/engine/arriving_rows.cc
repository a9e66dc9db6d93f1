#include "runtime/engine/arriving_rows.h"

#include <fmt/format.h>

#include <numeric>

namespace rueda::core {
namespace {

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::byte* allocate(Member& member, size_t bytes) {
  Operation& operation = *member.operation;
  const OperationSpec& spec = operation.spec();
  const DeviceRow& device = *spec.device;
  const bool calls_back = spec.allocate != nullptr;
  auto* const place = static_cast<std::byte*>(
      calls_back ? spec.allocate(bytes) : device.allocate(device.context, spec.device_index, bytes, spec.stream));
  if (place == nullptr) {
    member.failure = Status(
        Code::kSystem, fmt::format("{} gave no {} bytes for the output of {}",
                                   calls_back ? "the allocation callback" : "the device", bytes, describe(member)));
    return nullptr;
  }
  operation.own_output(static_cast<size_t>(&member - operation.members().data()), place, bytes,
                       calls_back ? Ownership::kCaller : Ownership::kLibrary);
  return place;
}

}  // namespace

std::byte* ArrivingRows::place(size_t tensor, std::span<const int64_t> rows) {
  Member& member = *members_[tensor];
  member.received.assign(rows.begin(), rows.end());
  OutputShape arrived{member.request.metadata.shape, 0};
  arrived.shape[0] = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  arrived.count = arrived.shape[0] * member.slice.row;
  if (member.slice.out != nullptr && member.output->shape != arrived.shape) {
    member.failure = Status(Code::kInvalidArgument,
                            fmt::format("{}: the output given has shape {}, what arrived has {}", describe(member),
                                        text_of(member.output->shape), text_of(arrived.shape)));
    return nullptr;
  }
  const auto bytes = static_cast<size_t>(arrived.count) * size_of(member.request.metadata.dtype);
  member.output = std::make_unique<OutputShape>(std::move(arrived));
  if (member.slice.out != nullptr || bytes == 0) return member.slice.out;
  return allocate(member, bytes);
}

}  // namespace rueda::core
