#include "runtime/diagnosis/divergence.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/rank_ranges.h"

namespace rueda::core {
namespace {

/// What ranks must agree on: a name of a set, or the place in the order of the unnamed operations of a kind.
struct Key {
  uint32_t set;
  std::string name;
  size_t ordinal;
  auto operator<=>(const Key&) const = default;
};

struct Waiting {
  const DumpedOp* first = nullptr;  ///< the earliest that was submitted
  std::set<int> have;
};

bool in_agreement(const DumpedOp& op) { return op.state < OpState::kAgreed; }
double enqueued(const DumpedOp& op) { return op.when[static_cast<size_t>(OpState::kEnqueued)]; }

std::string names_of(const std::set<int>& ranks) {
  const std::vector<int> list(ranks.begin(), ranks.end());
  return rank_ranges(list, {});
}

class Comparison {
 public:
  explicit Comparison(std::span<const RankDump> dumps) : dumps_(dumps) {
    for (const RankDump& dump : dumps) {
      std::map<Key, size_t> seen;
      for (const DumpedOp& op : dump.operations) {
        members_[op.set].insert(dump.rank);
        if (in_agreement(op)) note(dump.rank, op, seen);
      }
    }
    for (const RankDump& dump : dumps) members_[0].insert(dump.rank);
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines = missing_operation();
    if (lines.empty()) lines = unfinished_batch();
    if (lines.empty()) lines = {"no divergence: all ranks have submitted the same, and nothing runs"};
    if (std::string silent = silent_ranks(); !silent.empty()) lines.push_back(std::move(silent));
    return lines;
  }

 private:
  void note(int rank, const DumpedOp& op, std::map<Key, size_t>& seen) {
    const std::string name = op.name.empty() ? op.kind + " without a name" : op.name;
    const size_t ordinal = seen[{op.set, name, 0}]++;
    Waiting& waiting = waiting_[{op.set, name, ordinal}];
    waiting.have.insert(rank);
    if (waiting.first == nullptr || enqueued(op) < enqueued(*waiting.first)) waiting.first = &op;
  }

  std::set<int> lacking(const Waiting& waiting) const {
    std::set<int> ranks = members_.at(waiting.first->set);
    for (const int rank : waiting.have) ranks.erase(rank);
    return ranks;
  }

  std::vector<std::string> missing_operation() const {
    const Waiting* first = nullptr;
    for (const auto& [key, waiting] : waiting_) {
      if (lacking(waiting).empty()) continue;
      if (first == nullptr || enqueued(*waiting.first) < enqueued(*first->first)) first = &waiting;
    }
    if (first == nullptr) return {};
    const std::set<int> lack = lacking(*first);
    std::vector<std::string> lines = {
        fmt::format("first divergence: {} of process set {} was submitted by {}, not by {}", first->first->describe(),
                    first->first->set, names_of(first->have), names_of(lack))};
    for (const int rank : lack) lines.push_back(instead(rank, *first->first));
    return lines;
  }

  /// What a rank did that has not submitted `awaited`.
  std::string instead(int rank, const DumpedOp& awaited) const {
    const RankDump& dump =
        *std::find_if(dumps_.begin(), dumps_.end(), [rank](const RankDump& each) { return each.rank == rank; });
    const std::string who = fmt::format("  rank {} (host {}, pid {})", rank, dump.host, dump.pid);
    const std::string activity = dump.activity.empty() ? "" : "; it says: " + dump.activity;
    for (const DumpedOp& op : dump.operations) {
      if (op.state >= OpState::kFinished || op.set != awaited.set) continue;
      return fmt::format("{} has {} instead, {} for {:.3f} s{}", who, op.describe(), name_of(op.state),
                         dump.taken - op.when[static_cast<size_t>(op.state)], activity);
    }
    if (dump.operations.empty()) return fmt::format("{} has never submitted anything{}", who, activity);
    const DumpedOp& last = dump.operations.back();
    return fmt::format("{} has nothing of the set in flight; its last was {}, {} {:.3f} s ago{}", who, last.describe(),
                       name_of(last.state), dump.taken - last.when[static_cast<size_t>(last.state)], activity);
  }

  /// The oldest batch of a set that has not ended everywhere.
  std::vector<std::string> unfinished_batch() const {
    const DumpedOp* first = nullptr;
    for (const RankDump& dump : dumps_) {
      for (const DumpedOp& op : dump.operations) {
        if (op.state != OpState::kAgreed && op.state != OpState::kStarted) continue;
        if (first == nullptr || std::pair(op.set, *op.batch) < std::pair(first->set, *first->batch)) first = &op;
      }
    }
    if (first == nullptr) return {};
    std::map<OpState, std::set<int>> ranks;
    for (const RankDump& dump : dumps_) {
      for (const DumpedOp& op : dump.operations) {
        if (op.batch == first->batch && op.set == first->set) ranks[op.state].insert(dump.rank);
      }
    }
    std::vector<std::string> lines = {
        fmt::format("no divergence in what ranks submitted; batch {} of process set {} ({}, {}) is under way",
                    *first->batch, first->set, first->row, first->describe())};
    for (const auto& [state, who] : ranks) lines.push_back(fmt::format("  {}: {}", name_of(state), names_of(who)));
    return lines;
  }

  std::string silent_ranks() const {
    std::set<int> silent;
    for (int rank = 0; rank < (dumps_.empty() ? 0 : dumps_.front().size); ++rank) silent.insert(rank);
    for (const RankDump& dump : dumps_) silent.erase(dump.rank);
    return silent.empty() ? "" : fmt::format("no flight record came from {}", names_of(silent));
  }

  std::span<const RankDump> dumps_;
  std::map<uint32_t, std::set<int>> members_;
  std::map<Key, Waiting> waiting_;
};

}  // namespace

std::vector<std::string> first_divergence(std::span<const RankDump> dumps) { return Comparison(dumps).lines(); }

std::string merged_json(std::span<const RankDump> dumps) {
  nlohmann::ordered_json merged = {{"verdict", first_divergence(dumps)}, {"ranks", nlohmann::ordered_json::array()}};
  for (const RankDump& dump : dumps) merged["ranks"].push_back(nlohmann::ordered_json::parse(to_json(dump)));
  return merged.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rueda::core
