#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "rueda.hpp"

namespace rueda::perf {

/// What a row of the table has moved so far.
struct RowRun {
  std::string name;
  uint64_t batches = 0;
  uint64_t bytes = 0;
};
using RowsRun = std::map<int, RowRun>;  ///< by number

/// As the session's stats have it.
RowsRun rows_run(const Session& session);
/// The name of the row that moved most bytes between the two (of equals, in most batches); "none" where none moved any.
std::string busiest_row(const RowsRun& before, const RowsRun& after);

}  // namespace rueda::perf
