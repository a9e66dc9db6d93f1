#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/diagnosis/dump.h"

namespace rueda::core {

/// Compares the flight records of one job's ranks. Returns lines for people, the verdict first: which operation some
/// ranks wait for and others never submitted, and what those did instead; else which batch some ranks still run; else
/// that nothing is wrong. An operation that has waited for less than half a second does not count, since ranks give
/// their records at different moments. `dumps` is by rank, each rank at most once; ranks without a record are named.
/// In an elastic job the records of its latest plan are compared, each worker gives at most one, and workers that are
/// in an earlier plan are named. Pure.
std::vector<std::string> first_divergence(std::span<const RankDump> dumps);

/// All records of a job in one text.
struct MergedDumps {
  std::string json;     ///< one object: "verdict", its lines, and "ranks", all dumps
  bool settled = true;  ///< false if an operation is too young to count: another look half a second later may tell more
};
/// Merges the records, with the verdict of `first_divergence`.
MergedDumps merge_dumps(std::span<const RankDump> dumps);

}  // namespace rueda::core
