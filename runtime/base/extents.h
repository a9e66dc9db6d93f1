#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <stdexcept>

namespace rueda::core {

/// The most dimensions of a tensor.
inline constexpr size_t kMaxDims = 16;

template <typename Range>
concept RangeOfExtents =
    std::ranges::contiguous_range<Range> && std::same_as<std::ranges::range_value_t<Range>, int64_t>;

/// The extents of a tensor's dimensions: a vector of at most 17 numbers, which lie in the object itself, because one is
/// made for each tensor that is submitted. Room for 16 dimensions and the bytes of an opaque element. A call that would
/// make it longer throws std::length_error and changes nothing. A value.
class Extents {
 public:
  static constexpr size_t kCapacity = kMaxDims + 1;

  Extents() = default;
  /// Copies those of a span, a vector or an array.
  template <RangeOfExtents Range>
  Extents(const Range& extents) {
    assign(std::ranges::begin(extents), std::ranges::end(extents));
  }
  Extents(std::initializer_list<int64_t> extents) { assign(extents.begin(), extents.end()); }
  Extents(const Extents& other) noexcept { *this = other; }
  Extents& operator=(const Extents& other) noexcept {
    size_ = other.size_;
    std::copy_n(other.numbers_.begin(), size_, numbers_.begin());
    return *this;
  }
  ~Extents() = default;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int64_t* data() const { return numbers_.data(); }
  int64_t* data() { return numbers_.data(); }
  const int64_t* begin() const { return numbers_.data(); }
  const int64_t* end() const { return numbers_.data() + size_; }
  int64_t* begin() { return numbers_.data(); }
  int64_t* end() { return numbers_.data() + size_; }
  const int64_t& operator[](size_t dimension) const { return numbers_[dimension]; }
  int64_t& operator[](size_t dimension) { return numbers_[dimension]; }
  int64_t front() const { return numbers_[0]; }
  int64_t back() const { return numbers_[size_ - 1]; }

  void clear() { size_ = 0; }
  void push_back(int64_t extent) {
    require_fits(size_ + 1);
    numbers_[size_++] = extent;
  }
  /// New dimensions have the extent 0.
  void resize(size_t size) {
    require_fits(size);
    if (size > size_) std::fill(numbers_.begin() + size_, numbers_.begin() + size, 0);
    size_ = static_cast<uint32_t>(size);
  }

  friend bool operator==(const Extents& a, const Extents& b) { return std::ranges::equal(a, b); }

 private:
  template <typename Iterator>
  void assign(Iterator first, Iterator last) {
    require_fits(static_cast<size_t>(last - first));
    size_ = static_cast<uint32_t>(std::copy(first, last, numbers_.begin()) - numbers_.begin());
  }
  static void require_fits(size_t size) {
    if (size > kCapacity) throw std::length_error("a tensor has at most 16 dimensions");
  }

  uint32_t size_ = 0;
  std::array<int64_t, kCapacity> numbers_;  // those from size_ on have no value
};

}  // namespace rueda::core
