#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace rueda::core {

/// The next multiple of `unit`; a value close to the largest size overflows.
constexpr size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

/// Which parts of an arena are taken: blocks of whole pages, first fit. Offsets only; it touches no memory. Not
/// thread-safe: its owner guards it.
class BlockMap {
 public:
  /// `bytes` and `page` are powers of two or multiples of one: `bytes` is a whole number of pages.
  BlockMap(size_t bytes, size_t page) : bytes_(bytes), page_(page) { free_.emplace(0, bytes); }

  /// Takes a block of at least `bytes`, in whole pages. Blocks of a huge page or more begin at a multiple of one.
  /// Returns nothing if no gap is long enough.
  std::optional<size_t> take(size_t bytes);
  /// Returns the length of the block at `offset`; 0 if none begins there.
  size_t length_of(size_t offset) const;
  /// Gives the block at `offset` back for later use.
  void give_back(size_t offset);
  /// Ends the block at `offset`; its range is never taken again.
  void retire(size_t offset);
  /// Bytes of blocks that are taken.
  size_t taken_bytes() const { return taken_bytes_; }
  size_t bytes() const { return bytes_; }

  static constexpr size_t kHugePage = size_t{2} << 20;

 private:
  size_t bytes_;
  size_t page_;
  size_t taken_bytes_ = 0;
  std::map<size_t, size_t> free_;   ///< lengths by offset; no two touch
  std::map<size_t, size_t> taken_;  ///< likewise; neighbours may touch
};

}  // namespace rueda::core
