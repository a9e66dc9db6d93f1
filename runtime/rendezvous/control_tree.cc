// The control tree of a job over many hosts, computed from `host_of` alone, so every rank has the same one:
//
//                      host 0 (rank 0 leads)                 radix 8
//           ┌─────────────┼──────── ... ─────┐
//         host 1        host 2             host 8            leaders talk to their parent's leader
//       ┌───┴──...    ┌───┴──...
//     host 9        host 17
//
// Hosts are numbered like the nodes of a heap, so parent and children follow from the number.
#include "runtime/rendezvous/control_tree.h"

#include <algorithm>
#include <numeric>

namespace rueda::core {

ControlTree::ControlTree(const std::vector<int>& host_of) {
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const auto host = static_cast<size_t>(host_of[rank]);
    if (local_.size() <= host) local_.resize(host + 1);
    local_[host].push_back(static_cast<int>(rank));
  }
}

std::vector<int> ControlTree::children(int host) const {
  std::vector<int> below;
  for (int child = host * kRadix + 1; child <= host * kRadix + kRadix && child < hosts(); ++child) {
    below.push_back(child);
  }
  return below;
}

std::vector<int> ControlTree::subtree(int host) const {
  std::vector<int> ranks = local(host);
  for (const int child : children(host)) {
    const std::vector<int> below = subtree(child);
    ranks.insert(ranks.end(), below.begin(), below.end());
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

int ControlTree::depth() const {
  // The last host is at the greatest depth: a heap fills its levels in order.
  int edges = 0;
  for (int host = hosts() - 1; host > 0; host = parent(host)) ++edges;
  return edges;
}

std::vector<int> ControlTree::peers(int rank, int host) const {
  const int leader = local(host).front();
  if (leader != rank) return {leader};
  std::vector<int> ranks(local(host).begin() + 1, local(host).end());
  for (const int child : children(host)) ranks.push_back(local(child).front());
  if (host != 0) ranks.push_back(local(parent(host)).front());
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool uses_control_tree(const EpochPlan& plan) {
  const auto elsewhere = [](int host) { return host != 0; };
  // On one host all control frames go through shared memory, which costs no connection.
  if (std::none_of(plan.host_of.begin(), plan.host_of.end(), elsewhere)) return false;
  if (plan.settings.control_tree != Choice::kAuto) return plan.settings.control_tree == Choice::kForce;
  return plan.size - 1 > kMostControlConnections;
}

int control_upstream(const EpochPlan& plan) {
  if (plan.rank == 0) return -1;
  if (!uses_control_tree(plan)) return 0;
  const ControlTree tree(plan.host_of);
  const int host = plan.host_of[static_cast<size_t>(plan.rank)];
  const int leader = tree.local(host).front();
  return leader != plan.rank ? leader : tree.local(ControlTree::parent(host)).front();
}

std::vector<int> control_peers(const EpochPlan& plan) {
  if (uses_control_tree(plan)) {
    return ControlTree(plan.host_of).peers(plan.rank, plan.host_of[static_cast<size_t>(plan.rank)]);
  }
  if (plan.rank != 0) return {0};
  std::vector<int> others(static_cast<size_t>(plan.size - 1));
  std::iota(others.begin(), others.end(), 1);
  return others;
}

}  // namespace rueda::core
