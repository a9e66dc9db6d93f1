#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "bindings/c/wrong.h"

namespace rueda::core {

[[gnu::noinline, gnu::cold]] inline Status wrong_stamp(const char* what, size_t size, size_t right) {
  return wrong(std::string(what) + ".struct_size is " + std::to_string(size) + "; set it to sizeof, " +
               std::to_string(right));
}

/// Copies the caller's size-stamped struct into `copy`, as this build knows it: fields that the caller's header lacks
/// are zero, fields that this build lacks are ignored. A null pointer means all zero. Returns kInvalidArgument if the
/// stamp is shorter than itself; `what` begins the sentence.
template <typename T>
Status copy_in(const T* given, const char* what, T& copy) {
  size_t size = 0;
  if (given != nullptr) std::memcpy(&size, given, sizeof size);
  if (size == sizeof(T)) {  // as a caller with this header has it
    std::memcpy(&copy, given, sizeof(T));
    return {};
  }
  if (given != nullptr && size < sizeof size) return wrong_stamp(what, size, sizeof(T));
  copy = T{};
  if (given != nullptr) std::memcpy(&copy, given, std::min(size, sizeof(T)));
  copy.struct_size = sizeof(T);
  return {};
}

/// Returns the caller's struct as this build knows it: the caller's own if it has this build's size, else a copy in
/// `room`. Null if `copy_in` refuses it; `why` says why.
template <typename T>
const T* read_in(const T* given, const char* what, T& room, Status& why) {
  size_t size = 0;
  if (given != nullptr) std::memcpy(&size, given, sizeof size);
  if (size == sizeof(T)) return given;
  why = copy_in(given, what, room);
  return why.ok() ? &room : nullptr;
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
