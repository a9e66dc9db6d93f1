#pragma once
#include <cstring>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Copies text to a caller's buffer of `capacity` bytes. `*bytes` is the length with the NUL; nothing is written if it
/// exceeds the capacity. Returns kInvalidArgument if `bytes` is null, or `out` is null with a capacity.
inline Status copy_out(const std::string& text, char* out, size_t capacity, size_t* bytes) {
  if (bytes == nullptr) return {Code::kInvalidArgument, "bytes is NULL"};
  if (out == nullptr && capacity != 0) {
    return {Code::kInvalidArgument, "the buffer is NULL, its capacity is " + std::to_string(capacity)};
  }
  *bytes = text.size() + 1;
  if (*bytes <= capacity) std::memcpy(out, text.c_str(), *bytes);
  return {};
}

}  // namespace rueda::core
