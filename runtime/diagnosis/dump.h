#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/diagnosis/op_record.h"

namespace rueda::core {

/// An operation as a dump shows it. Times are seconds since 1970; 0 if the state was not reached.
struct DumpedOp {
  uint64_t number = 0;
  uint32_t set = 0;
  std::string kind;
  std::string name;  ///< empty: unnamed
  std::string dtype;
  int64_t count = 0;
  OpState state = OpState::kEnqueued;
  std::string error;              ///< code of a failure, else empty
  std::optional<uint64_t> batch;  ///< its number in the set, once agreed
  std::string algorithm;          ///< of its batch; empty until it has one
  std::array<double, kOpStates> when{};
  /// `allreduce "w" (f32, 10 elements)`.
  std::string describe() const;
};

/// A process set as its rank knows it. Numbers are the rank's own; name and members say which set of others it is.
struct DumpedSet {
  uint32_t number = 0;
  std::string name;  ///< may be empty
  std::vector<int> ranks;
};

/// What one rank remembers, as JSON and back.
struct RankDump {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;
  int size = 1;
  uint64_t plan = 0;  ///< of an elastic job; 0: the worker is new and in none, or the job is not elastic
  std::vector<int64_t> workers = {};  ///< of that plan, by rank; `dump_from_json` gives `size` of them, or none
  std::string host;
  int64_t pid = 0;
  double taken = 0;             ///< when it was made, in seconds since 1970
  std::string status;           ///< "ok", or why the epoch is over
  std::string activity;         ///< what the program says it is doing; empty: it was not asked, or did not say
  std::vector<DumpedSet> sets;  ///< by number, without the set of all ranks
  std::vector<DumpedOp> operations;
  uint64_t left_out = 0;  ///< number of operations that to_json_within left out
  /// Returns `rank 1`, or in an elastic job `worker 2 (rank 1 of plan 2)`, or `worker 5` if that is in no plan.
  std::string who() const;
  /// Returns the number of a rank's worker; -1 if the job is not elastic.
  int64_t worker_of(int other) const;
  /// Returns ` of process set "trio" (ranks 0-2)`; empty for the set of all ranks.
  std::string of_set(uint32_t set_number) const;
};

/// Converts records. `algorithm_name` names an algorithm by its index in the table. Reads both clocks, so call it right
/// after the records were taken.
std::vector<DumpedOp> dumped(std::span<const OpRecord> records,
                             const std::function<std::string(uint8_t)>& algorithm_name);
/// Seconds since 1970.
double unix_now();

std::string to_json(const RankDump& dump);
/// Returns JSON of at most `most` bytes, if leaving out operations can make it so: first the oldest that are over, then
/// the youngest in flight.
std::string to_json_within(RankDump dump, size_t most);
/// Returns kInvalidArgument if the text is not a dump.
Result<RankDump> dump_from_json(std::string_view text);

}  // namespace rueda::core
