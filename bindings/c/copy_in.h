#pragma once
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// The caller's size-stamped struct as this build knows it: fields the caller's header did not have are zero, fields
/// that this build does not have are ignored. A null pointer stands for all zero.
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

}  // namespace rueda::core
