#pragma once
#include <filesystem>
#include <iterator>

namespace rueda::core {

/// How many descriptors this process has open, with the one that counts them.
inline size_t open_descriptors() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

}  // namespace rueda::core
