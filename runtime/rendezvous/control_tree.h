#pragma once
#include <vector>

#include "runtime/rendezvous/epoch_plan.h"

namespace rueda::core {

/// How control frames travel in a job of many hosts: the ranks of a host to its leader, its lowest rank, through shared
/// memory; leaders up a tree of radix 8 to that of host 0, which is rank 0. So no process has more than nine control
/// connections to other hosts, and rank 0 hears of 4,096 ranks from eight. A value; pure.
///
///   host h: parent (h - 1) / 8, children 8 h + 1 .. 8 h + 8
class ControlTree {
 public:
  static constexpr int kRadix = 8;
  /// `host_of` by rank; hosts are numbered by their lowest rank, as in EpochPlan.
  explicit ControlTree(const std::vector<int>& host_of);

  int hosts() const { return static_cast<int>(local_.size()); }
  /// -1 for host 0.
  static int parent(int host) { return host == 0 ? -1 : (host - 1) / kRadix; }
  std::vector<int> children(int host) const;
  /// Ranks of the host, ascending; the first is its leader.
  const std::vector<int>& local(int host) const { return local_[static_cast<size_t>(host)]; }
  /// Ranks of the host and of all hosts below it, ascending.
  std::vector<int> subtree(int host) const;
  /// Edges from host 0 to the farthest host.
  int depth() const;
  /// Processes that this rank exchanges control frames with, its host's among them, ascending.
  std::vector<int> peers(int rank, int host) const;

 private:
  std::vector<std::vector<int>> local_;
};

/// More control connections than this no process is to have: beyond, frames travel in the tree.
inline constexpr int kMostControlConnections = 16;

/// Whether this epoch's control frames travel in the tree: on all ranks alike. RUEDA_CONTROL_TREE decides where it is
/// 1 or 0; else whether rank 0 would have more than kMostControlConnections without. Never in a job on one host.
bool uses_control_tree(const EpochPlan& plan);
/// The ranks that this one exchanges control frames with, ascending: in the tree as `ControlTree::peers`, else all
/// others on rank 0, and rank 0 on the others.
std::vector<int> control_peers(const EpochPlan& plan);
/// Through whom this rank reaches rank 0: rank 0 itself, its host's leader, or the leader of the host above; -1 on
/// rank 0.
int control_upstream(const EpochPlan& plan);

}  // namespace rueda::core
