#pragma once
#include <vector>

#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// The paths of control frames in a job over many hosts. The ranks of a host send to its leader, its lowest rank,
/// through shared memory. Leaders send up a tree of radix 8 to the leader of host 0, which is rank 0. So no process has
/// more than nine control connections to other hosts, and rank 0 hears of 4,096 ranks from eight. A value; pure.
///
///   host h: parent (h - 1) / 8, children 8 h + 1 .. 8 h + 8
class ControlTree {
 public:
  static constexpr int kRadix = 8;
  /// `host_of` by rank; hosts are numbered by their lowest rank, as in EpochPlan.
  explicit ControlTree(const std::vector<int>& host_of);

  int hosts() const { return static_cast<int>(local_.size()); }
  /// Returns -1 for host 0.
  static int parent(int host) { return host == 0 ? -1 : (host - 1) / kRadix; }
  std::vector<int> children(int host) const;
  /// Ranks of the host, ascending; the first is its leader.
  const std::vector<int>& local(int host) const { return local_[static_cast<size_t>(host)]; }
  /// Ranks of the host and of all hosts below it, ascending.
  std::vector<int> subtree(int host) const;
  /// The number of edges from host 0 to the farthest host.
  int depth() const;
  /// The ranks that `rank` on `host` exchanges control frames with, ascending: those of its own host included.
  std::vector<int> peers(int rank, int host) const;

 private:
  std::vector<std::vector<int>> local_;
};

/// The most control connections of one process. If rank 0 needed more, frames travel in the tree.
inline constexpr int kMostControlConnections = 16;

/// Returns true if this epoch's control frames travel in the tree; the same on all ranks. RUEDA_CONTROL_TREE decides if
/// it is 1 or 0. Otherwise they do if rank 0 would have more than kMostControlConnections without the tree. Never true
/// in a job on one host.
bool uses_control_tree(const EpochPlan& plan);
/// The ranks that this one exchanges control frames with, ascending: `ControlTree::peers` in the tree; otherwise rank 0
/// with all others.
std::vector<int> control_peers(const EpochPlan& plan);
/// The rank through which this one reaches rank 0: rank 0 itself, its host's leader, or the leader of the host above.
/// -1 on rank 0.
int control_upstream(const EpochPlan& plan);

}  // namespace rueda::core
