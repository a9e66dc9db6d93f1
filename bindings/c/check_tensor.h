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
  int64_t count = 0;  ///< elements; for an opaque tensor bytes, as the data plane counts it
  size_t bytes = 0;
  const DeviceFunctions* device = nullptr;
  /// The shape as ranks agree on it: with an opaque element's bytes as one more dimension.
  Extents agreed_shape() const;
  /// As in Metadata.
  std::vector<uint8_t> order;
};

/// Checks one tensor and copies it into `checked`, which is new; `what` begins the error sentence. `data` may be NULL
/// if `place` is optional or the tensor has no elements. Returns kInvalidArgument for a wrong dtype, number of
/// dimensions, extent, order, alignment or device, and for an element or tensor over 2^47 bytes.
enum class Place { kRequired, kOptional };
Status check_tensor(const rueda_tensor* given, const char* what, Place place, const DeviceTable& devices,
                    CheckedTensor& checked);

/// Returns kInvalidArgument unless the output has the input's dtype, element size, order and device, and the shape
/// `wanted`.
Status check_output(const CheckedTensor& input, const CheckedTensor& output, std::span<const int64_t> wanted);
/// Returns kInvalidArgument unless the output begins at `place` (the part of the input that it may share) or is
/// disjoint from the input.
Status check_overlap(const CheckedTensor& input, const CheckedTensor& output, const std::byte* place);

/// Checks that no result of a group lies in another tensor's memory. Returns kInvalidArgument, with both indices, if
/// one does.
Status check_apart(std::span<const TensorPart> tensors);

}  // namespace rueda::core
