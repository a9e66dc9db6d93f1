#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/diagnosis/dump.h"

namespace rueda::core {

/// Reads the flight records of one job's ranks together, side by side in time: which operation some ranks wait for and
/// others never submitted, and what those did instead; else which batch some ranks still run; else that nothing is
/// wrong. What has waited for less than half a second is no divergence: ranks give their records at different moments.
/// Lines for people, the first one the verdict. Pure. `dumps` by rank, each rank at most once; ranks that gave
/// none are named.
std::vector<std::string> first_divergence(std::span<const RankDump> dumps);

struct MergedDumps {
  std::string json;     ///< one object: "verdict", its lines, and "ranks", all dumps
  bool settled = true;  ///< whether a look half a second later can find no divergence that is too young now
};
MergedDumps merge_dumps(std::span<const RankDump> dumps);

}  // namespace rueda::core
