#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace rueda::sim {

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers for a seed on every platform and library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From 0 to `bound` - 1.
  size_t below(size_t bound) { return static_cast<size_t>(next() % bound); }
  int between(int low, int high) { return low + static_cast<int>(below(static_cast<size_t>(high - low) + 1)); }
  /// True once in `n`.
  bool once_in(size_t n) { return below(n) == 0; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  uint64_t state_;
};

}  // namespace rueda::sim
