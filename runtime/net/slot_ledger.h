#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rueda::core {

/// What a lane of one rank remembers from batch to batch: which peers may still be reading each of its shared areas,
/// and how far each peer was last seen. Process sets that share a lane have different members, so it remembers per
/// area, not per set. The lane's mesh owns it, the holder of the lane's token uses it.
class SlotLedger {
 public:
  enum class Area { kTiny, kEarly, kInput, kResult };
  /// The last use of an area: reader p has finished with it once p's `done` word is at least `value`.
  struct Use {
    std::vector<int> readers;
    uint64_t value = 0;
  };
  /// The highest values seen in a peer's words. They only grow, so an old look can stand in for a new one.
  struct Seen {
    uint64_t posted = 0;
    uint64_t reduced = 0;
    uint64_t done = 0;
  };

  /// The reference is valid until the next call.
  Use& use(Area area, int slot) { return at(uses_[static_cast<size_t>(area)], slot); }
  Seen& seen(int rank) { return at(seen_, rank); }
  /// Records that `readers` read the area until their `done` words reach `value`.
  void claim(Area area, int slot, std::span<const int> readers, uint64_t value) {
    Use& last = use(area, slot);
    last.readers.assign(readers.begin(), readers.end());
    last.value = value;
  }

 private:
  template <typename T>
  static T& at(std::vector<T>& items, int index) {
    const auto i = static_cast<size_t>(index);
    if (i >= items.size()) items.resize(i + 1);
    return items[i];
  }

  std::vector<Use> uses_[4];
  std::vector<Seen> seen_;
};

}  // namespace rueda::core
