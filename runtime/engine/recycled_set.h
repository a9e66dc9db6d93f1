#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace rueda::core {

/// A set, an std::unordered_set, whose entries come and go at the rate of small operations, often on different threads:
/// it keeps the memory of some that have gone for those that come. It belongs to one thread at a time. (A pool of the
/// standard library does that, too, but that of GCC 12 crashes if memory runs out while it grows.)
template <typename Set>
class RecycledSet {
 public:
  using Value = typename Set::value_type;

  RecycledSet() { spare_.reserve(kSpare); }
  /// Returns false if it is there already. If there is no memory, it throws and changes nothing.
  bool insert(const Value& value) {
    if (spare_.empty()) return set_.insert(value).second;
    if (set_.contains(value)) return false;
    spare_.back().value() = value;
    set_.insert(std::move(spare_.back()));
    spare_.pop_back();
    return true;
  }
  /// Takes no memory.
  void erase(const Value& value) {
    auto node = set_.extract(value);
    if (!node.empty() && spare_.size() < kSpare) spare_.push_back(std::move(node));
  }
  auto begin() const { return set_.begin(); }
  auto end() const { return set_.end(); }

 private:
  static constexpr size_t kSpare = 1024;  ///< about 50 KiB in all

  Set set_;
  std::vector<typename Set::node_type> spare_;
};

}  // namespace rueda::core
