#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace rueda::core {

/// The memory of entries that have gone from a hashed container, for entries that come: at the rate of small
/// operations, often on different threads. It belongs to one thread at a time. (A pool of the standard library does
/// that, too, but that of GCC 12 crashes if memory runs out while it grows.)
template <typename Container>
class SpareNodes {
 public:
  using Node = typename Container::node_type;

  SpareNodes() { nodes_.reserve(kMost); }
  bool empty() const { return nodes_.empty(); }
  /// The node that the next entry can have. It stays here until it is moved into a container, and then dropped.
  Node& next() { return nodes_.back(); }
  void drop() { nodes_.pop_back(); }
  /// Keeps a node, unless there are many. Takes no memory.
  void keep(Node node) {
    if (!node.empty() && nodes_.size() < kMost) nodes_.push_back(std::move(node));
  }

 private:
  static constexpr size_t kMost = 1024;  ///< about 64 KiB

  std::vector<Node> nodes_;
};

}  // namespace rueda::core
