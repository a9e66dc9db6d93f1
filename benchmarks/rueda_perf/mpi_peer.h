#pragma once
#include <map>
#include <string>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/entry.h"

namespace rueda::perf {

/// MPI_Allreduce as a peer: `rueda-perf-mpi`, which lies beside this program, under mpirun. Rank 0's main thread; the
/// other ranks wait asleep meanwhile. Functions throw std::runtime_error with a sentence.
class MpiPeer {
 public:
  explicit MpiPeer(const Arguments& arguments);

  /// Times `bytes` in place on `ranks` processes, once with mpi_yield_when_idle 0 and once with 1, and returns the
  /// better one, which stands in its flags. Blocks until both runs have ended.
  Entry measure(size_t bytes, int ranks);
  /// Name, library and command for the JSON, as of the entry that was returned last.
  const std::map<std::string, std::string>& description() const { return description_; }

 private:
  Entry run(size_t bytes, int ranks, int yield);
  const Arguments& arguments_;
  std::string program_;
  std::map<std::string, std::string> description_;
};

}  // namespace rueda::perf
