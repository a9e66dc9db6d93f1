// Translates tensors of TensorFlow into those of rueda.h. The types come first, because every other function follows
// from their sizes.
#include "bindings/tensorflow/tensors.h"

namespace rueda::tensorflow {
namespace {

struct Type {
  int32_t dtype;
  size_t bytes;
};

Type type_of(TfType type) {
  switch (type) {
    case TfType::kUint8: return {RUEDA_U8, 1};
    case TfType::kInt8: return {RUEDA_I8, 1};
    case TfType::kUint16: return {RUEDA_U16, 2};
    case TfType::kInt16: return {RUEDA_I16, 2};
    case TfType::kUint32: return {RUEDA_U32, 4};
    case TfType::kInt32: return {RUEDA_I32, 4};
    case TfType::kUint64: return {RUEDA_U64, 8};
    case TfType::kInt64: return {RUEDA_I64, 8};
    case TfType::kHalf: return {RUEDA_F16, 2};
    case TfType::kBfloat16: return {RUEDA_BF16, 2};
    case TfType::kFloat: return {RUEDA_F32, 4};
    case TfType::kDouble: return {RUEDA_F64, 8};
    case TfType::kBool: return {RUEDA_BOOL, 1};
    case TfType::kComplex64: return {RUEDA_COMPLEX64, 8};
    case TfType::kComplex128: return {RUEDA_COMPLEX128, 16};
  }
  return {-1, 0};
}

}  // namespace

std::vector<int64_t> Tensor::shape() const {
  std::vector<int64_t> extents(static_cast<size_t>(api().NumDims(tensor_)));
  for (size_t i = 0; i < extents.size(); ++i) extents[i] = api().Dim(tensor_, static_cast<int>(i));
  return extents;
}

int32_t dtype_of(TfType type) { return type_of(type).dtype; }

size_t element_bytes(TfType type) { return type_of(type).bytes; }

size_t bytes_of(TfType type, const std::vector<int64_t>& shape) {
  size_t bytes = element_bytes(type);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

rueda_tensor describe(void* data, TfType type, const std::vector<int64_t>& shape) {
  rueda_tensor tensor{};
  tensor.struct_size = sizeof tensor;
  tensor.data = data;
  tensor.dtype = dtype_of(type);
  tensor.dimensions = static_cast<int32_t>(shape.size());
  tensor.shape = shape.data();
  tensor.device = RUEDA_DEVICE_CPU;
  return tensor;
}

}  // namespace rueda::tensorflow
