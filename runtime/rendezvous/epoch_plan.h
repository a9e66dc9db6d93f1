#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/rank_ranges.h"
#include "runtime/base/settings.h"

namespace rueda::core {

/// Where one rank can be reached. A value.
struct Endpoint {
  std::string host;  ///< the launcher's name for its host
  int64_t pid = 0;
  std::string worker;                  ///< 128 random bits in hex; the same for the life of the process
  std::vector<std::string> addresses;  ///< numeric, in order of preference
  uint16_t port = 0;                   ///< of its TCP listener, data and control
  std::string unix_name;               ///< abstract socket for descriptors between local ranks
};

/// What hvdrun's plan says of the workers of an elastic job, as far as an epoch needs it. In other jobs it is empty.
struct ElasticPlan {
  uint64_t number = 0;                ///< 0: the job is not elastic
  std::vector<int64_t> workers = {};  ///< their numbers, by rank
  int slot = 0;                       ///< this worker's slot on its host, which it keeps for life
};

/// The ranks of one epoch and what they agreed on. A value: engine and meshes are built from it, and each epoch has an
/// EpochPlan of its own. The numbered plans of an elastic job are `Plan`, runtime/store/plan.h.
struct EpochPlan {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;
  int size = 1;
  std::vector<Endpoint> ranks;  ///< by rank
  std::vector<int> host_of;     ///< by rank: the number of its host; hosts are numbered by their lowest rank. Two ranks
                                ///< have one number only if they share memory, so locality is a partition
  Settings settings;            ///< with rank 0's values for what is agreed
  ElasticPlan elastic = {};
  int local_rank() const;
  int local_size() const;
  int cross_rank() const;  ///< number of this host among the hosts that have a rank with this local rank
  int cross_size() const;
  bool homogeneous() const;              ///< every host has the same number of ranks
  std::vector<int> local_ranks() const;  ///< ranks on this host, ascending
  std::string name_of(int other) const;  ///< as `rank_name`: "rank 3 (host b, pid 77)"
  std::string own_name() const;          ///< as `worker_name`: "rank 3", or "worker 5 (rank 3 of plan 2)"
  int64_t worker_of(int other) const;    ///< -1 if the job is not elastic
  RankNames names() const;
};

}  // namespace rueda::core
