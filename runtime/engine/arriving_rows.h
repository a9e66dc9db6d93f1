#pragma once
#include <span>
#include <vector>

#include "runtime/engine/executor.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// Finds the places of a batch's arriving rows: what the caller gave, memory of the caller's callback or of the
/// library's. Where the given place has another shape, or there is no memory, this rank drops what arrives, so that its
/// peers succeed, and the tensor carries the failure. Lives while the batch runs; used by whoever runs it.
class ArrivingRows : public Arrivals {
 public:
  /// `tensors` in the batch's order; they outlive this.
  explicit ArrivingRows(std::vector<TensorPart*> tensors) : tensors_(std::move(tensors)) {}
  std::byte* place(size_t tensor, std::span<const int64_t> rows) override;

 private:
  std::vector<TensorPart*> tensors_;
};

}  // namespace rueda::core
