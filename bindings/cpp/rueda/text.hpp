#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "rueda/error.hpp"

namespace rueda::detail {

/// Returns a text that the library writes into a buffer: calls `write(buffer, capacity, &bytes)` again until the buffer
/// is large enough.
template <typename Write>
std::string text_of(Write&& write) {
  std::string text(4096, '\0');
  for (;;) {
    size_t bytes = 0;
    check(write(text.data(), text.size(), &bytes));
    const bool fits = bytes <= text.size();
    text.resize(bytes);
    if (!fits) continue;
    text.resize(bytes - 1);  // the NUL
    return text;
  }
}

}  // namespace rueda::detail
