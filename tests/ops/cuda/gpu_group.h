#pragma once
#include <memory>
#include <vector>

#include "tests/ops/cuda/gpu.h"

namespace rueda::test {

/// Tensors of floats in a GPU's memory, reduced as one group: it leaves as one batch.
class GpuGroup {
 public:
  GpuGroup(int rank, const std::vector<int64_t>& counts) : shapes_(counts) {
    for (int64_t& count : shapes_) {
      memory_.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(count))));
      rueda_tensor tensor = *GpuTensor(memory_.back()->data(), count, rank).get();
      tensor.shape = &count;
      tensors_.push_back(tensor);
    }
  }
  GpuGroup(const GpuGroup&) = delete;
  GpuGroup& operator=(const GpuGroup&) = delete;
  void reduce(rueda_session* session, int32_t op, const rueda_op_options& options) {
    expect_code(
        rueda_grouped_allreduce(session, tensors_.size(), tensors_.data(), tensors_.data(), nullptr, op, &options),
        RUEDA_OK, "grouped");
  }
  const std::vector<std::unique_ptr<GpuMemory<float>>>& memory() const { return memory_; }

 private:
  std::vector<int64_t> shapes_;
  std::vector<std::unique_ptr<GpuMemory<float>>> memory_;
  std::vector<rueda_tensor> tensors_;
};

/// So many short tensors, some of them empty.
inline std::vector<int64_t> lengths(size_t tensors) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < tensors; ++i) all.push_back(static_cast<int64_t>(i * 5 % 34));
  return all;
}

}  // namespace rueda::test
