#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rueda::core {

/// Finds a `T` by its id: open addressing with linear probing, for ids that are given out in ascending order and are
/// never 0. Eight ids that follow each other lie side by side, and the eights are scattered: a run of ids is read from
/// few cache lines, and no probe sequence grows with the table. Does not own the values. Not shared between threads.
template <typename T>
class IdMap {
 public:
  T* find(uint64_t id) const {
    if (slots_.empty()) return nullptr;
    for (size_t at = home_of(id); slots_[at].id != 0; at = (at + 1) & mask_) {
      if (slots_[at].id == id) return slots_[at].value;
    }
    return nullptr;
  }
  /// `id` must not be in the map.
  void insert(uint64_t id, T* value) {
    if ((used_ + 1) * 2 > slots_.size()) grow();
    ++used_;
    place({id, value});
  }
  /// Does nothing if there is no such id. Moves later slots of the probe sequence back, so that no tombstone remains
  /// (Knuth, The Art of Computer Programming, vol. 3, 6.4, algorithm R).
  void erase(uint64_t id) {
    if (find(id) == nullptr) return;
    size_t hole = home_of(id);
    while (slots_[hole].id != id) hole = (hole + 1) & mask_;
    --used_;
    for (size_t at = (hole + 1) & mask_; slots_[at].id != 0; at = (at + 1) & mask_) {
      const size_t home = home_of(slots_[at].id);
      if (((at - home) & mask_) >= ((at - hole) & mask_)) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = {};
  }
  size_t size() const { return used_; }

 private:
  struct Slot {
    uint64_t id = 0;
    T* value = nullptr;
  };
  size_t home_of(uint64_t id) const { return (((id >> 3) * 0x9e3779b97f4a7c15u >> 32 << 3) + (id & 7)) & mask_; }
  void place(Slot slot) {
    size_t at = home_of(slot.id);
    while (slots_[at].id != 0) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
  void grow() {
    std::vector<Slot> old(slots_.empty() ? 16 : slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.id != 0) place(slot);
    }
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0;  ///< one less than there are slots
  size_t used_ = 0;
};

}  // namespace rueda::core
