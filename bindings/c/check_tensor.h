#pragma once
#include <span>
#include <vector>

#include "bindings/c/rueda.h"
#include "runtime/base/status.h"
#include "runtime/engine/device_table.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// A tensor whose every field was checked. `tensor.shape` points to the caller's.
struct CheckedTensor {
  rueda_tensor tensor;
  int64_t count = 0;  ///< elements; of an opaque tensor bytes, as the data plane counts it
  size_t bytes = 0;
  const DeviceRow* device = nullptr;
  /// The shape as ranks agree on it: with an opaque element's bytes as one more dimension.
  std::vector<int64_t> agreed_shape() const;
  /// As in Metadata.
  std::vector<uint8_t> order;
};

/// kInvalidArgument: dtype, dimensions, an extent, element or size over 2^47 bytes, alignment, device. `what` begins
/// the sentence. `data` may be NULL where `place` is optional, or there are no elements.
enum class Place { kRequired, kOptional };
Result<CheckedTensor> check_tensor(const rueda_tensor* given, const char* what, Place place,
                                   const DeviceTable& devices);

/// kInvalidArgument unless the output has the input's dtype, element size and device, and the shape `wanted`.
Status check_output(const CheckedTensor& input, const CheckedTensor& output, std::span<const int64_t> wanted);
/// kInvalidArgument unless the output begins at `place` (where in the input it may lie) or is disjoint from the input.
Status check_overlap(const CheckedTensor& input, const CheckedTensor& output, const std::byte* place);

/// The tensors of a group: no result may lie in another tensor's memory. kInvalidArgument: names both.
Status check_apart(const std::vector<TensorPart>& tensors);

}  // namespace rueda::core
