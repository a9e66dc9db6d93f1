#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/settings.h"

namespace rueda::core {

/// How one rank can be reached.
struct Endpoint {
  std::string host;  ///< the launcher's name for its host
  int64_t pid = 0;
  std::string worker;                  ///< 128 random bits in hex, as long as the process lives
  std::vector<std::string> addresses;  ///< numeric, in order of preference
  uint16_t port = 0;                   ///< of its TCP listener, data and control
  std::string unix_name;               ///< abstract socket for descriptors between local ranks
};

/// One world: who is in it and what was agreed. A value: engine and meshes are built from it, and a new epoch is a new
/// plan. Elastic jobs form epoch 2 from fewer workers this way, in the same processes.
struct EpochPlan {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;
  int size = 1;
  std::vector<Endpoint> ranks;  ///< by rank
  std::vector<int> host_of;  ///< by rank: number of its host, hosts numbered by their lowest rank. Same number: memory
                             ///< is shared (a memfd and a pidfd really passed), so locality is a partition
  Settings settings;         ///< with rank 0's values for what is agreed
  int local_rank() const;
  int local_size() const;
  int cross_rank() const;  ///< number of this host among the hosts that have a rank with this local rank
  int cross_size() const;
  bool homogeneous() const;              ///< every host has the same number of ranks
  std::vector<int> local_ranks() const;  ///< ranks on this host, ascending
  std::string name_of(int other) const;  ///< "rank 3 (host b, pid 77)"
};

}  // namespace rueda::core
