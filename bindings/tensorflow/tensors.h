#pragma once
#include <cstdint>
#include <vector>

#include "bindings/c/rueda.h"
#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {

/// Owns a TF_Tensor, which holds a reference to its memory. Movable.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TF_Tensor* tensor) : tensor_(tensor) {}
  Tensor(Tensor&& other) noexcept : tensor_(other.tensor_) { other.tensor_ = nullptr; }
  Tensor& operator=(Tensor&& other) noexcept {
    reset();
    tensor_ = other.tensor_;
    other.tensor_ = nullptr;
    return *this;
  }
  ~Tensor() { reset(); }

  void reset() {
    if (tensor_ != nullptr) api().DeleteTensor(tensor_);
    tensor_ = nullptr;
  }
  explicit operator bool() const { return tensor_ != nullptr; }
  void* data() const { return api().TensorData(tensor_); }
  size_t bytes() const { return api().TensorByteSize(tensor_); }
  TfType type() const { return api().TensorType(tensor_); }
  std::vector<int64_t> shape() const;

 private:
  TF_Tensor* tensor_ = nullptr;
};

/// The number of a type in rueda.h, or -1 if the library has no such type.
int32_t dtype_of(TfType type);

/// The bytes of an element of a type for which dtype_of() is not negative.
size_t element_bytes(TfType type);

/// The bytes of a tensor of this type and shape.
size_t bytes_of(TfType type, const std::vector<int64_t>& shape);

/// A rueda_tensor that refers to `data` and `shape`, which must outlive it.
rueda_tensor describe(void* data, TfType type, const std::vector<int64_t>& shape);

}  // namespace rueda::tensorflow
