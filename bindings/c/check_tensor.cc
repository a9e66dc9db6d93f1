// Checks every field of a tensor before the library touches it. The order matters: element size and extents come before
// the product, so that no product overflows (2^47 bytes is the limit of a tensor), and the order of dimensions is
// normalised last, so that two ranks that describe the same layout agree on equal bytes.
#include "bindings/c/check_tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "bindings/c/copy_in.h"
#include "runtime/base/dtype.h"

namespace rueda::core {
namespace {

constexpr auto kMaxDimensions = static_cast<int32_t>(kMaxDims);
constexpr uint64_t kMaxBytes = uint64_t{1} << 47;

Status wrong_tensor(const char* what, const std::string& why) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", what, why));
}

std::string shape_text(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

Status count_elements(const char* what, CheckedTensor& checked) {
  const rueda_tensor& tensor = checked.tensor;
  const bool opaque = tensor.dtype == RUEDA_OPAQUE;
  const size_t element = opaque ? tensor.element_bytes : size_of(static_cast<Dtype>(tensor.dtype));
  if (element == 0 || element > kMaxBytes) {
    return wrong_tensor(what, fmt::format("element_bytes is {}; an opaque element has 1 to 2^47 bytes", element));
  }
  const std::span extents(tensor.shape, static_cast<size_t>(tensor.dimensions));
  const bool empty = std::find(extents.begin(), extents.end(), 0) != extents.end();
  uint64_t bytes = element;
  uint64_t count = 1;
  for (int32_t d = 0; d < tensor.dimensions; ++d) {
    const int64_t extent = tensor.shape[d];
    if (extent < 0) return wrong_tensor(what, fmt::format("dimension {} is {}; it must be 0 or more", d, extent));
    if (static_cast<uint64_t>(extent) > kMaxBytes) {
      return wrong_tensor(what, fmt::format("dimension {} is {}; the limit is 2^47", d, extent));
    }
    if (!empty && (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes) || bytes > kMaxBytes)) {
      return wrong_tensor(what, fmt::format("the tensor exceeds the limit of 2^47 bytes at dimension {}", d));
    }
    if (!empty) count *= static_cast<uint64_t>(extent);
  }
  if (empty) bytes = count = 0;
  checked.bytes = bytes;
  checked.count = static_cast<int64_t>(opaque ? bytes : count);
  return {};
}

Status check_order(const char* what, CheckedTensor& checked) {
  const rueda_tensor& tensor = checked.tensor;
  if (tensor.order == nullptr) return {};
  std::vector<uint8_t> ones;
  std::vector<uint8_t> others;
  std::vector<char> seen(static_cast<size_t>(tensor.dimensions));
  for (const int64_t dimension : std::span(tensor.order, seen.size())) {
    if (dimension < 0 || dimension >= tensor.dimensions || seen[static_cast<size_t>(dimension)] != 0) {
      return wrong_tensor(
          what, fmt::format("order must name each of the {} dimensions once; it has {}", tensor.dimensions, dimension));
    }
    seen[static_cast<size_t>(dimension)] = 1;
    (tensor.shape[dimension] == 1 ? ones : others).push_back(static_cast<uint8_t>(dimension));
  }
  if (checked.count == 0 || std::is_sorted(others.begin(), others.end())) return {};
  std::sort(ones.begin(), ones.end());
  checked.order = std::move(ones);
  checked.order.insert(checked.order.end(), others.begin(), others.end());
  return {};
}

}  // namespace

Extents CheckedTensor::agreed_shape() const {
  Extents shape(std::span<const int64_t>(tensor.shape, static_cast<size_t>(tensor.dimensions)));
  if (tensor.dtype == RUEDA_OPAQUE) shape.push_back(static_cast<int64_t>(tensor.element_bytes));
  return shape;
}

Status check_tensor(const rueda_tensor* given, const char* what, Place place, const DeviceTable& devices,
                    CheckedTensor& checked) {
  if (given == nullptr) return wrong_tensor(what, "the tensor is NULL");
  RUEDA_RETURN_IF_ERROR(copy_in(given, what, checked.tensor));
  const rueda_tensor& tensor = checked.tensor;
  if (!valid(static_cast<Dtype>(tensor.dtype))) {
    return wrong_tensor(what,
                        fmt::format("dtype {} is unknown; RUEDA_U8 (0) to RUEDA_OPAQUE (15) exist", tensor.dtype));
  }
  if (tensor.dimensions < 0 || tensor.dimensions > kMaxDimensions) {
    return wrong_tensor(what, fmt::format("{} dimensions; 0 to {} are allowed", tensor.dimensions, kMaxDimensions));
  }
  if (tensor.dimensions > 0 && tensor.shape == nullptr) return wrong_tensor(what, "shape is NULL");
  RUEDA_RETURN_IF_ERROR(count_elements(what, checked));
  RUEDA_RETURN_IF_ERROR(check_order(what, checked));
  const auto unit = size_of(part_of(static_cast<Dtype>(tensor.dtype)));
  if (checked.count > 0 && tensor.data == nullptr && place == Place::kRequired)
    return wrong_tensor(what, "data is NULL");
  if ((reinterpret_cast<uintptr_t>(tensor.data) & (unit - 1)) != 0) {  // a power of two
    return wrong_tensor(what, fmt::format("data is not aligned to {} bytes, which its elements need", unit));
  }
  checked.device = devices.find(tensor.device);
  if (checked.device == nullptr)
    return wrong_tensor(what, fmt::format("device {} is unknown; no plug-in serves it", tensor.device));
  return {};
}

Status check_output(const CheckedTensor& input, const CheckedTensor& output, std::span<const int64_t> wanted) {
  const rueda_tensor& in = input.tensor;
  const rueda_tensor& out = output.tensor;
  if (in.dtype != out.dtype) {
    return wrong_tensor("output", fmt::format("dtype is {}; the input has {}", name_of(static_cast<Dtype>(out.dtype)),
                                              name_of(static_cast<Dtype>(in.dtype))));
  }
  if (in.dtype == RUEDA_OPAQUE && in.element_bytes != out.element_bytes) {
    return wrong_tensor("output",
                        fmt::format("element_bytes is {}; the input has {}", out.element_bytes, in.element_bytes));
  }
  if (in.device != out.device || in.device_index != out.device_index) {
    return wrong_tensor("output", fmt::format("it is on device {} number {}; the input is on device {} number {}",
                                              out.device, out.device_index, in.device, in.device_index));
  }
  if (input.order != output.order) return wrong_tensor("output", "its order in memory differs from the input's");
  const std::span<const int64_t> shape(out.shape, static_cast<size_t>(out.dimensions));
  if (!std::equal(shape.begin(), shape.end(), wanted.begin(), wanted.end()))
    return wrong_tensor("output",
                        fmt::format("its shape is {}; the result has {}", shape_text(shape), shape_text(wanted)));
  return {};
}

Status check_overlap(const CheckedTensor& input, const CheckedTensor& output, const std::byte* place) {
  const rueda_tensor& in = input.tensor;
  const rueda_tensor& out = output.tensor;
  const auto* a = static_cast<const std::byte*>(in.data);
  const auto* b = static_cast<const std::byte*>(out.data);
  if (input.bytes > 0 && output.bytes > 0 && b != nullptr && b != place && a < b + output.bytes &&
      b < a + input.bytes) {
    return wrong_tensor("output", "it overlaps the input, and is not the slice of it that may hold the result");
  }
  return {};
}

namespace {

struct Memory {
  const std::byte* begin;
  const std::byte* end;
  size_t tensor;
  bool written;
};

void add_memory(const TensorPart& tensor, size_t index, std::vector<Memory>& all) {
  const size_t element = size_of(tensor.request.metadata.dtype);
  const std::byte* const in = tensor.slice.in;
  const std::byte* const out = tensor.slice.out;
  const std::byte* const in_end = in == nullptr ? in : in + static_cast<size_t>(tensor.slice.count) * element;
  const std::byte* const out_end = out == nullptr ? out : out + static_cast<size_t>(tensor.output_count()) * element;
  const bool in_place = in < out_end && out < in_end;
  if (in_place) return all.push_back({std::min(in, out), std::max(in_end, out_end), index, true});
  if (in < in_end) all.push_back({in, in_end, index, false});
  if (out < out_end) all.push_back({out, out_end, index, true});
}

}  // namespace

Status check_apart(std::span<const TensorPart> tensors) {
  std::vector<Memory> all;
  all.reserve(2 * tensors.size());
  for (size_t index = 0; index < tensors.size(); ++index) add_memory(tensors[index], index, all);
  std::sort(all.begin(), all.end(), [](const Memory& a, const Memory& b) { return a.begin < b.begin; });
  // Ranges in ascending order of their begins: one overlaps an earlier one if it begins before the furthest end so far.
  // Two that are only read may overlap.
  const Memory* longest = nullptr;
  const Memory* longest_written = nullptr;
  for (const Memory& each : all) {
    const Memory* const before = each.written ? longest : longest_written;
    if (before != nullptr && each.begin < before->end) {
      return wrong_tensor("output",
                          fmt::format("tensors {} and {} of the group lie in the same memory, and one of them "
                                      "is written there",
                                      std::min(before->tensor, each.tensor), std::max(before->tensor, each.tensor)));
    }
    if (longest == nullptr || each.end > longest->end) longest = &each;
    if (each.written && (longest_written == nullptr || each.end > longest_written->end)) longest_written = &each;
  }
  return {};
}

}  // namespace rueda::core
