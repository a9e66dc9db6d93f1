#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "rueda.hpp"

namespace rueda::perf {

/// What an algorithm has moved so far.
struct AlgorithmRun {
  std::string name;
  uint64_t batches = 0;
  uint64_t bytes = 0;
};
using AlgorithmsRun = std::map<int, AlgorithmRun>;  ///< by index in the table

/// As the session's stats have it.
AlgorithmsRun algorithms_run(const Session& session);
/// The name of the algorithm that moved most bytes between the two (among equals: in most batches); "none" if no batch
/// ran.
std::string busiest_algorithm(const AlgorithmsRun& before, const AlgorithmsRun& after);

}  // namespace rueda::perf
