// First fit over a map of gaps. Tensors are few and live long, so a search over the gaps costs nothing beside the pages
// that a block brings; and low offsets are used again first, which keeps the part of the arena in use short.
#include "runtime/net/block_map.h"

#include <iterator>

namespace rueda::core {

std::optional<size_t> BlockMap::take(size_t bytes) {
  if (bytes > bytes_) return std::nullopt;  // before it is rounded up, which could overflow
  const size_t length = round_up(bytes == 0 ? 1 : bytes, page_);
  const size_t unit = length >= kHugePage ? kHugePage : page_;
  for (auto gap = free_.begin(); gap != free_.end(); ++gap) {
    const size_t begin = round_up(gap->first, unit);
    const size_t end = gap->first + gap->second;
    if (begin > end || end - begin < length) continue;
    const size_t before = gap->first;
    free_.erase(gap);
    if (begin > before) free_.emplace(before, begin - before);
    if (end > begin + length) free_.emplace(begin + length, end - begin - length);
    taken_.emplace(begin, length);
    taken_bytes_ += length;
    return begin;
  }
  return std::nullopt;
}

size_t BlockMap::length_of(size_t offset) const {
  const auto block = taken_.find(offset);
  return block == taken_.end() ? 0 : block->second;
}

void BlockMap::retire(size_t offset) {
  const auto block = taken_.find(offset);
  if (block == taken_.end()) return;
  taken_bytes_ -= block->second;
  taken_.erase(block);
}

/// A gap grows by what it touches, before it and behind it.
void BlockMap::give_back(size_t offset) {
  size_t length = length_of(offset);
  if (length == 0) return;
  retire(offset);
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto last = std::prev(next);
    if (last->first + last->second == offset) {
      offset = last->first;
      length += last->second;
      free_.erase(last);
    }
  }
  if (next != free_.end() && offset + length == next->first) {
    length += next->second;
    free_.erase(next);
  }
  free_.emplace(offset, length);
}

}  // namespace rueda::core
