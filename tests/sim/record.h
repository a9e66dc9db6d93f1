#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/program.h"

namespace rueda::sim {

/// How one rank's operation ended.
struct Outcome {
  int batch_set = -1;  ///< -1: an error
  uint64_t batch = 0;
  core::Status error;
  bool in_place = false;  ///< the batch runs where its tensors lie
};

/// One rank's operation: what it submitted and how it ended.
struct Ticket {
  core::Request request;
  uint64_t occurrence = 0;  ///< of its key on this rank since the beginning
  bool refused = false;     ///< at submission, as shut down: it never took a number
  bool abandoned = false;
  bool held = false;  ///< a receive that is not proposed, for want of a sender or behind one that has none
  uint64_t unit = 0;  ///< the submission it belongs to
  std::optional<Outcome> outcome;
};

/// A batch as a rank saw it.
struct SeenBatch {
  core::BatchEvent event;                                    ///< with the set's number
  std::vector<std::pair<std::string, uint64_t>> operations;  ///< keys and occurrences
};

/// One join of a rank, from its call to its end.
struct Join {
  core::SetId set = core::kGlobalSet;
  uint64_t ticket = 0;
  bool ended = false;
  int last = -1;  ///< -1: not ended, or failed
};

/// Everything that happened on one rank.
struct RankRecord {
  std::map<uint64_t, Ticket> tickets;
  std::map<std::string, uint64_t> submitted;  ///< by key
  std::vector<SeenBatch> batches;             ///< in the order of the verdicts
  std::vector<int> goodbyes;
  std::map<core::SetId, core::SetId> made;  ///< ids of added sets, by number
  std::vector<core::SetId> removed;         ///< numbers
  std::vector<Join> joins;
  std::map<std::string, std::vector<uint64_t>> skipped;  ///< occurrences by key that passed while it had joined
  bool dead = false;
  bool ended = false;  ///< from outside, after a death
};

/// Whether the rank has joined the set and not heard of the end.
bool is_joined(const RankRecord& record, core::SetId set);
/// Whether the rank has nothing to contribute to an occurrence, because it has joined before.
bool is_excused(const RankRecord& record, core::SetId set, const std::string& key, uint64_t occurrence);

/// "set/name", or "set/#kind" of an unnamed operation.
std::string key_of(const core::Request& request);

/// What must hold at any time; empty, or the sentence of the first violation.
std::string check_batches(const Job& job, const std::vector<RankRecord>& ranks);
std::string check_sets(const Job& job, const std::vector<RankRecord>& ranks);
std::string check_joins(const Job& job, const std::vector<RankRecord>& ranks);
/// What must hold when nothing moves any more.
std::string check_outcomes(const Job& job, const std::vector<RankRecord>& ranks);
/// Whether a pending operation should have had a verdict by now, because all members submitted all it needs.
std::string check_nothing_lost(const Job& job, const std::vector<RankRecord>& ranks);

}  // namespace rueda::sim
