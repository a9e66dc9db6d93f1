#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Copies the caller's size-stamped struct as this build knows it: fields that the caller's header lacks are zero,
/// fields that this build lacks are ignored. A null pointer means all zero.
template <typename T>
Result<T> copy_in(const T* given, const char* what) {
  T copy{};
  copy.struct_size = sizeof(T);
  if (given == nullptr) return copy;
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size) {
    return Status(Code::kInvalidArgument, std::string(what) + ".struct_size is " + std::to_string(size) +
                                              "; set it to sizeof, " + std::to_string(sizeof(T)));
  }
  std::memcpy(&copy, given, std::min(size, sizeof(T)));
  copy.struct_size = sizeof(T);
  return copy;
}

/// Returns an element of a caller's array. The caller's header decides how long its elements are: the size stamp of the
/// first one counts for all. Null for a null array.
template <typename T>
const T* element_of(const T* array, size_t index) {
  if (array == nullptr) return nullptr;
  size_t stride = 0;
  std::memcpy(&stride, array, sizeof stride);
  return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(array) + index * stride);
}

}  // namespace rueda::core
