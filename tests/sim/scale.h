#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rueda::sim {

/// A job of many hosts, whose control frames travel in the tree of relays.
struct ScaleJob {
  int ranks = 4096;
  int hosts = 512;
  int steps = 100;
  int tensors = 161;
  uint64_t seed = 1;
};

/// What such a job cost, as counts.
struct ScaleReport {
  size_t control_connections = 0;        ///< of all processes together
  int max_control_connections = 0;       ///< of one process
  int tree_depth = 0;                    ///< edges between hosts from rank 0 to the farthest
  size_t rank0_messages_per_round = 0;   ///< frames that rank 0 takes between two acknowledgements, the most
  size_t rank0_messages_per_step = 0;    ///< in the steady state, both ways, the most
  size_t rank0_bytes_per_step = 0;       ///< likewise
  double bytes_per_tensor_per_step = 0;  ///< upward on one edge in the steady state, headers included, the most
  std::vector<std::string> violations;   ///< of the promises of agreement; the first few
};

/// Start-up, the steps, a mismatch, a join and a death, in one thread.
ScaleReport simulate_scale(const ScaleJob& job);

}  // namespace rueda::sim
