#include "benchmarks/rueda_perf/rows_run.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace rueda::perf {

RowsRun rows_run(const Session& session) {
  RowsRun rows;
  const auto stats = nlohmann::ordered_json::parse(session.stats());
  for (const auto& row : stats.at("algorithms")) {
    rows[row.at("row")] = {row.at("name"), row.at("batches"), row.at("bytes")};
  }
  return rows;
}

std::string busiest_row(const RowsRun& before, const RowsRun& after) {
  std::string name = "none";
  std::pair<uint64_t, uint64_t> most{0, 0};
  for (const auto& [number, row] : after) {
    const auto known = before.find(number);
    const RowRun start = known == before.end() ? RowRun{} : known->second;
    const std::pair<uint64_t, uint64_t> moved{row.bytes - start.bytes, row.batches - start.batches};
    if (moved <= most) continue;
    most = moved;
    name = row.name;
  }
  return name;
}

}  // namespace rueda::perf
