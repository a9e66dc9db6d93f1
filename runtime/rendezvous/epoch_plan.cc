// Local and cross numbers of a rank, from `host_of` alone. The cross numbers count only hosts that have a rank with
// this local rank: with hosts of 3 and 2 ranks, local rank 2 has a cross size of 1.
#include "runtime/rendezvous/epoch_plan.h"

#include <algorithm>
#include <map>

namespace rueda::core {
namespace {

int host_at(const EpochPlan& plan, int rank) { return plan.host_of[static_cast<size_t>(rank)]; }

/// Ranks by host, hosts in order of their numbers.
std::map<int, int> ranks_per_host(const EpochPlan& plan) {
  std::map<int, int> count;
  for (const int host : plan.host_of) ++count[host];
  return count;
}

}  // namespace

std::vector<int> EpochPlan::local_ranks() const {
  std::vector<int> ranks_here;
  for (int other = 0; other < size; ++other) {
    if (host_at(*this, other) == host_at(*this, rank)) ranks_here.push_back(other);
  }
  return ranks_here;
}

int EpochPlan::local_rank() const {
  const auto first = host_of.begin();
  return static_cast<int>(std::count(first, first + rank, host_at(*this, rank)));
}

int EpochPlan::local_size() const {
  return static_cast<int>(std::count(host_of.begin(), host_of.end(), host_at(*this, rank)));
}

// Counts the hosts with a lower number that have a rank with this local rank.
int EpochPlan::cross_rank() const {
  const auto counts = ranks_per_host(*this);
  const int local = local_rank();
  return static_cast<int>(std::count_if(counts.begin(), counts.lower_bound(host_at(*this, rank)),
                                        [local](const auto& host) { return host.second > local; }));
}

int EpochPlan::cross_size() const {
  const auto counts = ranks_per_host(*this);
  const int local = local_rank();
  return static_cast<int>(
      std::count_if(counts.begin(), counts.end(), [local](const auto& host) { return host.second > local; }));
}

std::string EpochPlan::name_of(int other) const {
  const Endpoint& endpoint = ranks[static_cast<size_t>(other)];
  return rank_name(other, endpoint.host, endpoint.pid, worker_of(other));
}

std::string EpochPlan::own_name() const { return worker_name(worker_of(rank), rank, elastic.number); }

int64_t EpochPlan::worker_of(int other) const {
  const auto at = static_cast<size_t>(other);
  return at < elastic.workers.size() ? elastic.workers[at] : -1;
}

RankNames EpochPlan::names() const {
  RankNames names{{}, elastic.workers, elastic.number};
  for (const Endpoint& endpoint : ranks) names.hosts.push_back(endpoint.host);
  return names;
}

bool EpochPlan::homogeneous() const {
  const auto counts = ranks_per_host(*this);
  return std::all_of(counts.begin(), counts.end(),
                     [&](const auto& host) { return host.second == counts.begin()->second; });
}

}  // namespace rueda::core
