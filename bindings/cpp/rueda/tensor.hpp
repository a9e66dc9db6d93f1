#pragma once
#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "rueda/error.hpp"

namespace rueda {

/// Storage of 16-bit floating point elements. They hold bits and do no arithmetic. A type of your own can be an element
/// if you specialise `DtypeOf` for it.
struct Float16 {
  uint16_t bits = 0;  ///< IEEE 754 binary16
};
struct BFloat16 {
  uint16_t bits = 0;  ///< the upper half of binary32
};

/// The RUEDA_ dtype of an element type.
template <typename T>
struct DtypeOf;

template <typename T>
requires std::is_integral_v<T>
struct DtypeOf<T> {
  static_assert(sizeof(T) <= 8, "no element type of rueda.h is this wide");
  static constexpr int32_t kWidth = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
  static constexpr int32_t value =
      std::is_same_v<T, bool> ? int32_t{RUEDA_BOOL} : kWidth + (std::is_signed_v<T> ? 1 : 0);
};
template <>
struct DtypeOf<float> {
  static constexpr int32_t value = RUEDA_F32;
};
template <>
struct DtypeOf<double> {
  static constexpr int32_t value = RUEDA_F64;
};
template <>
struct DtypeOf<Float16> {
  static constexpr int32_t value = RUEDA_F16;
};
template <>
struct DtypeOf<BFloat16> {
  static constexpr int32_t value = RUEDA_BF16;
};

template <>
struct DtypeOf<std::complex<float>> {
  static constexpr int32_t value = RUEDA_COMPLEX64;
};
template <>
struct DtypeOf<std::complex<double>> {
  static constexpr int32_t value = RUEDA_COMPLEX128;
};

/// Bytes of one element of a RUEDA_ dtype except RUEDA_OPAQUE, which takes its size from the tensor.
inline constexpr size_t element_bytes(int32_t dtype) {
  constexpr std::array<size_t, 15> kBytes = {1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1, 8, 16};
  return kBytes.at(static_cast<size_t>(dtype));
}

/// The memory that holds a tensor: RUEDA_DEVICE_CPU or a plug-in's device kind, and the index of the device.
struct Device {
  int32_t kind = RUEDA_DEVICE_CPU;
  int32_t index = 0;
};

/// A range with contiguous elements of a known dtype: a vector, array, span and so on.
template <typename R>
concept ElementRange = requires(R& range) {
  std::data(range);
  std::size(range);
  DtypeOf<std::remove_cv_t<std::remove_pointer_t<decltype(std::data(range))>>>::value;
};
template <typename R>
concept WritableRange =
    ElementRange<R> && !std::is_const_v<std::remove_pointer_t<decltype(std::data(std::declval<R&>()))>>;

/// Elements that an operation reads: a view that owns nothing. The memory is lent to the library from enqueue until the
/// handle has finished. Dense, row-major unless `ordered`. A bare range has one dimension. A value: any thread.
class ConstTensor {
 public:
  static constexpr size_t kMaxDimensions = 16;

  template <ElementRange R>
  ConstTensor(const R& range)  // NOLINT(google-explicit-constructor): a range is a tensor
      : ConstTensor(std::data(range),
                    DtypeOf<std::remove_cv_t<std::remove_pointer_t<decltype(std::data(range))>>>::value,
                    {static_cast<int64_t>(std::size(range))}) {}

  /// `data` may be null if there are no elements.
  ConstTensor(const void* data, int32_t dtype, std::initializer_list<int64_t> shape)
      : ConstTensor(data, dtype, std::span<const int64_t>(shape.begin(), shape.size())) {}
  /// `opaque_bytes` is the size of one element of RUEDA_OPAQUE. InvalidArgument: more than 16 dimensions.
  ConstTensor(const void* data, int32_t dtype, std::span<const int64_t> shape, size_t opaque_bytes = 0)
      : data_(data), dtype_(dtype), dimensions_(shape.size()), opaque_bytes_(opaque_bytes) {
    if (shape.size() > kMaxDimensions) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "tensor with " + std::to_string(shape.size()) +
                                                        " dimensions, the limit is " + std::to_string(kMaxDimensions));
    }
    std::copy(shape.begin(), shape.end(), shape_.begin());
  }

  const void* data() const { return data_; }
  int32_t dtype() const { return dtype_; }
  std::span<const int64_t> shape() const { return {shape_.data(), dimensions_}; }
  int64_t count() const {
    int64_t product = 1;
    for (const int64_t dimension : shape()) product *= dimension;
    return product;
  }
  size_t opaque_bytes() const { return opaque_bytes_; }
  Device device() const { return device_; }
  /// Returns the same tensor with `data` in the memory of `device`.
  ConstTensor on(Device device) const {
    ConstTensor there = *this;
    there.device_ = device;
    return there;
  }
  /// Returns the same tensor with its dimensions in this order in memory, outermost first: see rueda_tensor.
  /// InvalidArgument: the length differs from the number of dimensions.
  ConstTensor ordered(std::span<const int64_t> dimensions) const {
    if (dimensions.size() != dimensions_) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "ordered(): " + std::to_string(dimensions.size()) +
                                                        " dimensions, the tensor has " + std::to_string(dimensions_));
    }
    ConstTensor other = *this;
    other.is_ordered_ = true;
    std::copy(dimensions.begin(), dimensions.end(), other.order_.begin());
    return other;
  }
  size_t bytes() const {
    return static_cast<size_t>(count()) * (dtype_ == RUEDA_OPAQUE ? opaque_bytes_ : element_bytes(dtype_));
  }

  /// The tensor as rueda.h takes it; its `shape` and `order` point into this object.
  rueda_tensor c_tensor() const {
    rueda_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = const_cast<void*>(data_);  // the library writes only to outputs
    tensor.dtype = dtype_;
    tensor.dimensions = static_cast<int32_t>(dimensions_);
    tensor.shape = shape_.data();
    tensor.device = device_.kind;
    tensor.device_index = device_.index;
    tensor.element_bytes = opaque_bytes_;
    tensor.order = is_ordered_ ? order_.data() : nullptr;
    return tensor;
  }

 private:
  const void* data_;
  int32_t dtype_;
  size_t dimensions_;
  size_t opaque_bytes_;
  Device device_;
  std::array<int64_t, kMaxDimensions> shape_{};
  bool is_ordered_ = false;
  std::array<int64_t, kMaxDimensions> order_{};
};

/// Elements that an operation may write.
class Tensor : public ConstTensor {
 public:
  template <typename R>
  requires WritableRange<R> &&(!std::is_base_of_v<ConstTensor, std::remove_cvref_t<R>>)
      // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the line above leaves tensors out
      Tensor(R&& range)
      : ConstTensor(range) {}
  Tensor(void* data, int32_t dtype, std::initializer_list<int64_t> shape) : ConstTensor(data, dtype, shape) {}
  Tensor(void* data, int32_t dtype, std::span<const int64_t> shape, size_t opaque_bytes = 0)
      : ConstTensor(data, dtype, shape, opaque_bytes) {}

  void* data() const { return const_cast<void*>(ConstTensor::data()); }
  /// Returns the same tensor with `data` in the memory of `device`.
  Tensor on(Device device) const { return Tensor(ConstTensor::on(device)); }
  /// As ConstTensor::ordered.
  Tensor ordered(std::span<const int64_t> dimensions) const { return Tensor(ConstTensor::ordered(dimensions)); }
  /// The elements, if the caller may touch the memory. InvalidArgument: `T` is another dtype.
  template <typename T>
  std::span<T> elements() const {
    if (DtypeOf<T>::value != dtype()) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "elements(): the tensor's dtype is " + std::to_string(dtype()) +
                                                        ", that of the element type " +
                                                        std::to_string(DtypeOf<T>::value));
    }
    return {static_cast<T*>(data()), static_cast<size_t>(count())};
  }

 private:
  explicit Tensor(const ConstTensor& writable) : ConstTensor(writable) {}
};

/// The elements of `range`, `product(shape)` in number, as a tensor of that shape.
template <WritableRange R>
Tensor shaped(R&& range, std::initializer_list<int64_t> shape) {
  const Tensor flat(range);
  const Tensor tensor(flat.data(), flat.dtype(), shape);
  if (tensor.count() != flat.count()) {
    throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "shaped(): " + std::to_string(flat.count()) +
                                                      " elements, the shape holds " + std::to_string(tensor.count()));
  }
  return tensor;
}

/// The elements of `range`, of any type that can be copied bytewise, for operations that only move them.
template <typename R>
Tensor opaque(R&& range) {
  using Element = std::remove_pointer_t<decltype(std::data(range))>;
  static_assert(std::is_trivially_copyable_v<Element> && !std::is_const_v<Element>);
  const int64_t count[] = {static_cast<int64_t>(std::size(range))};
  return Tensor(std::data(range), RUEDA_OPAQUE, count, sizeof(Element));
}

/// An output like `input` on its device. The operation's `allocate` provides the memory, or the library owns it until
/// the handle is destroyed.
inline Tensor late_output(const ConstTensor& input) {
  return Tensor(nullptr, input.dtype(), input.shape(), input.opaque_bytes()).on(input.device());
}

}  // namespace rueda
