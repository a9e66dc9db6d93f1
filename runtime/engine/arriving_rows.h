#pragma once
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// Finds memory for a batch's arriving rows: what the caller gave, what its callback makes, or what the library makes.
/// If the given output has another shape, or there is no memory, this rank drops what arrives, so that its peers
/// succeed, and the tensor carries the failure. Lives while the batch runs; used by the thread that runs it.
class ArrivingRows : public Arrivals {
 public:
  /// `tensors` are in the batch's order. They and `device`, which is null for host memory, outlive this.
  ArrivingRows(std::vector<TensorPart*> tensors, DeviceCall* device) : tensors_(std::move(tensors)), device_(device) {}
  std::byte* place(size_t tensor, std::span<const int64_t> rows) override;

 private:
  std::vector<TensorPart*> tensors_;
  DeviceCall* device_;
};

}  // namespace rueda::core
