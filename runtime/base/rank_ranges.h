#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::core {

/// How every sentence names ranks. Pure: any thread.

/// What sentences say of ranks beside their numbers. Both lists are by rank and may be shorter or empty. A value.
struct RankNames {
  std::vector<std::string> hosts = {};
  std::vector<int64_t> workers = {};  ///< in an elastic job: hvdrun's numbers of the processes
  uint64_t plan = 0;                  ///< the elastic job's plan in which these are the ranks; 0: it is not elastic
};

/// Returns "rank 3 (host b, pid 77)", or "rank 3 (host b)" if `pid` is 0, which means that it is not known. In an
/// elastic job: "rank 3 (worker 5, host b, pid 77)"; a `worker` below 0 is not known.
std::string rank_name(int rank, std::string_view host, int64_t pid, int64_t worker = -1);
/// Returns "rank 3"; in an elastic job, in which `plan` is not 0, "worker 5 (rank 3 of plan 2)".
std::string worker_name(int64_t worker, int rank, uint64_t plan);
/// Returns " in plan 2"; empty if `plan` is 0.
std::string in_plan(uint64_t plan);
/// Returns "ranks 0-2 (host a), rank 3 (host b)"; in an elastic job "rank 0 (worker 0, host a), ranks 1-2 (workers 2-3,
/// host a)". `ranks` is ascending.
std::string rank_ranges(std::span<const int> ranks, const RankNames& names);
/// Returns the same, cut behind a range before it has more than `most_bytes`: "ranks 0-2, ... (1000 ranks in all)".
std::string bounded_rank_ranges(std::span<const int> ranks, const RankNames& names, size_t most_bytes);

}  // namespace rueda::core
