#pragma once
#include <utility>

#include "runtime/engine/spare_nodes.h"

namespace rueda::core {

/// A hashed set that keeps the memory of some entries that have gone. It belongs to one thread at a time.
template <typename Set>
class RecycledSet {
 public:
  using Value = typename Set::value_type;

  /// Returns false if it is there already. If there is no memory, it throws and changes nothing.
  bool insert(const Value& value) {
    if (spare_.empty()) return set_.insert(value).second;
    spare_.next().value() = value;
    auto result = set_.insert(std::move(spare_.next()));
    if (result.inserted) {
      spare_.drop();
    } else {
      spare_.next() = std::move(result.node);
    }
    return result.inserted;
  }
  /// Takes no memory.
  void erase(const Value& value) { spare_.keep(set_.extract(value)); }
  auto begin() const { return set_.begin(); }
  auto end() const { return set_.end(); }

 private:
  Set set_;
  SpareNodes<Set> spare_;
};

}  // namespace rueda::core
