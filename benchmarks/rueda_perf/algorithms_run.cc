// Which algorithm a measurement ran, from the session's own counters before and after: the selector's answer for a
// shape is not asked again, so that the figure names what moved the bytes.
#include "benchmarks/rueda_perf/algorithms_run.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace rueda::perf {

AlgorithmsRun algorithms_run(const Session& session) {
  AlgorithmsRun algorithms;
  const auto stats = nlohmann::ordered_json::parse(session.stats());
  for (const auto& one : stats.at("algorithms")) {
    algorithms[one.at("number")] = {one.at("name"), one.at("batches"), one.at("bytes")};
  }
  return algorithms;
}

std::string busiest_algorithm(const AlgorithmsRun& before, const AlgorithmsRun& after) {
  std::string name = "none";
  std::pair<uint64_t, uint64_t> most{0, 0};
  for (const auto& [number, algorithm] : after) {
    // An algorithm that had not run before is not in `before`.
    const auto known = before.find(number);
    const AlgorithmRun start = known == before.end() ? AlgorithmRun{} : known->second;
    const std::pair<uint64_t, uint64_t> moved{algorithm.bytes - start.bytes, algorithm.batches - start.batches};
    // By bytes first; a barrier moves none and wins by its batches.
    if (moved <= most) continue;
    most = moved;
    name = algorithm.name;
  }
  return name;
}

}  // namespace rueda::perf
