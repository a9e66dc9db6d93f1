// Compares the flight records of all ranks and finds the first thing they disagree on. Operations are matched as
// agreement matches them: by name within a process set, or by order for unnamed ones of a kind. Ranks number their sets
// as they like, so `Sets` first gives every set a name that all ranks share: its members, its name, its order of
// asking.
//
// Then the verdict is the first of these that applies, from the cause to the symptom:
//
//   an operation that some members have not submitted ─▶ a batch that has not ended everywhere ─▶ a join that waits ─▶
//   nothing waits
//
// If ranks wait for each other, one operation has to be named first. It is the one that fewer ranks lack: those few
// have most likely gone astray.
#include "runtime/diagnosis/divergence.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

/// What ranks must agree on: a name in a set, or the position among the unnamed operations of a kind.
struct Key {
  std::string set;  ///< as `Sets` names it
  std::string name;
  size_t ordinal;
  auto operator<=>(const Key&) const = default;
};

/// Ranks give their records some milliseconds apart, and what others have submitted meanwhile is not a divergence. So
/// an operation counts only after it has waited this long.
constexpr double kMomentSeconds = 0.5;

struct Waiting {
  const DumpedOp* first = nullptr;  ///< the submission that came first; null for a join
  double seconds = 0;               ///< time since the first rank submitted it
  std::string of;                   ///< its set, for people
  std::string set;
  std::set<int> have;
};

bool op_is_over(const DumpedOp& op) { return op.state >= OpState::kFinished; }
bool joins(const DumpedOp& op) { return op.kind == name_of(OpKind::kJoin); }
bool in_agreement(const DumpedOp& op) { return op.state < OpState::kAgreed; }
double enqueued(const DumpedOp& op) { return op.when[static_cast<size_t>(OpState::kEnqueued)]; }

bool overlap(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&b](int rank) { return b.count(rank) != 0; });
}

/// In an elastic job some workers may be in the next plan already. What they do there has nothing to do with the
/// records of the plan before it, so only those of the latest plan are compared.
uint64_t latest_plan(std::span<const RankDump> dumps) {
  uint64_t latest = 0;
  for (const RankDump& dump : dumps) latest = std::max(latest, dump.plan);
  return latest;
}

/// The sets of one rank, by what all ranks know of them: name, members and order of asking.
class Sets {
 public:
  explicit Sets(const RankDump& dump) {
    std::map<std::string, int> order;
    for (const DumpedSet& set : dump.sets) {
      const std::string what = fmt::format("{}/{}", fmt::join(set.ranks, ","), set.name);
      known_[set.number] = {fmt::format("{}/{}", what, order[what]++), {set.ranks.begin(), set.ranks.end()}};
    }
    std::set<int> all;
    for (int rank = 0; rank < dump.size; ++rank) all.insert(rank);
    known_[0] = {"all", all};
  }
  std::string name(uint32_t number) const {
    const auto found = known_.find(number);
    return found != known_.end() ? found->second.first : fmt::format("number {}", number);
  }
  /// Empty if the set is not known any more.
  std::set<int> members(uint32_t number) const {
    const auto found = known_.find(number);
    return found != known_.end() ? found->second.second : std::set<int>();
  }

 private:
  std::map<uint32_t, std::pair<std::string, std::set<int>>> known_;
};

class Comparison {
 public:
  explicit Comparison(std::span<const RankDump> dumps) {
    const uint64_t plan = latest_plan(dumps);
    for (const RankDump& dump : dumps) {
      const bool outside = dump.plan == 0 && !dump.workers.empty();
      (outside ? outside_ : dump.plan == plan ? dumps_ : behind_).push_back(&dump);
    }
    if (!dumps_.empty()) names_ = {{}, dumps_.front()->workers, plan};
    for (const RankDump* each : dumps_) {
      const RankDump& dump = *each;
      sets_.emplace(dump.rank, Sets(dump));
      std::map<Key, size_t> seen;
      for (const DumpedOp& op : dump.operations) {
        const std::string set = name_of_set(dump.rank, op);
        // Members come from the records too: a rank that has removed the set does not list it any more.
        members_[set].insert(dump.rank);
        members_[set].merge(sets_.at(dump.rank).members(op.set));
        if (joins(op)) {
          if (!op_is_over(op)) note_join(dump, op, set);
        } else if (in_agreement(op)) {
          note(dump, op, seen);
        }
      }
    }
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines = missing_operation();
    if (lines.empty()) lines = unfinished_batch();
    if (lines.empty()) lines = waiting_join();
    if (lines.empty()) lines = {nothing_waits()};
    if (std::string silent = silent_ranks(); !silent.empty()) lines.push_back(std::move(silent));
    for (const RankDump* late : behind_) {
      lines.push_back(fmt::format("{} has not joined plan {} yet", late->who(), names_.plan));
    }
    for (const RankDump* newcomer : outside_) {
      const std::string where = names_.plan == 0 ? "the job" : fmt::format("plan {}", names_.plan);
      lines.push_back(fmt::format("{} (host {}, pid {}) is new and waits outside of {}", newcomer->who(),
                                  newcomer->host, newcomer->pid, where));
    }
    for (const RankDump* dump : dumps_) {
      if (dump->left_out > 0)
        lines.push_back(
            fmt::format("{} has {} more operations than its record has room for", dump->who(), dump->left_out));
    }
    return lines;
  }

  /// Whether another look can change nothing: an operation is missing, or none waits that is too young to count.
  bool settled() const { return !missing_operation().empty() || longest_wait() == 0; }

 private:
  void note_join(const RankDump& dump, const DumpedOp& op, const std::string& set) {
    Waiting& join = joined_[set];
    join.set = set;
    join.of = dump.of_set(op.set);
    join.have.insert(dump.rank);
  }

  void note(const RankDump& dump, const DumpedOp& op, std::map<Key, size_t>& seen) {
    const int rank = dump.rank;
    const std::string name = op.name.empty() ? op.kind + " without a name" : op.name;
    const std::string set = name_of_set(rank, op);
    const size_t ordinal = seen[{set, name, 0}]++;
    Waiting& waiting = waiting_[{set, name, ordinal}];
    waiting.have.insert(rank);
    waiting.seconds = std::max(waiting.seconds, dump.taken - enqueued(op));
    if (waiting.first != nullptr && enqueued(op) >= enqueued(*waiting.first)) return;
    waiting.first = &op;
    waiting.of = dump.of_set(op.set);
    waiting.set = set;
  }

  std::string names_of(const std::set<int>& ranks) const {
    const std::vector<int> list(ranks.begin(), ranks.end());
    return rank_ranges(list, names_);
  }

  std::string name_of_set(int rank, const DumpedOp& op) const { return sets_.at(rank).name(op.set); }

  /// Members that have not submitted it and that others wait for. A member that has joined is not waited for.
  std::set<int> lacking(const Waiting& waiting) const {
    std::set<int> ranks = members_.at(waiting.set);
    for (const int rank : waiting.have) ranks.erase(rank);
    const auto joined = joined_.find(waiting.set);
    for (const int rank : joined != joined_.end() ? joined->second.have : std::set<int>()) ranks.erase(rank);
    return ranks;
  }

  /// Orders by time of submission. Of two sides that wait for each other, the one that fewer ranks lack comes first.
  bool comes_before(const Waiting& a, const Waiting& b) const {
    const std::set<int> lack_a = lacking(a);
    const std::set<int> lack_b = lacking(b);
    if (a.set == b.set && overlap(a.have, lack_b) && overlap(b.have, lack_a) && lack_a.size() != lack_b.size()) {
      return lack_a.size() < lack_b.size();
    }
    return enqueued(*a.first) < enqueued(*b.first);
  }

  std::vector<std::string> missing_operation() const {
    const Waiting* first = nullptr;
    for (const auto& [key, waiting] : waiting_) {
      if (waiting.seconds < kMomentSeconds || lacking(waiting).empty()) continue;
      if (first == nullptr || comes_before(waiting, *first)) first = &waiting;
    }
    if (first == nullptr) return {};
    const std::set<int> lack = lacking(*first);
    // A rank without a record may have submitted the operation. The line must not accuse it.
    std::set<int> told, silent;
    for (const int rank : lack) (record_of(rank) != nullptr ? told : silent).insert(rank);
    std::vector<std::string> lines = {fmt::format(
        "first divergence{}: {}{} was submitted by {}{}{}; it has waited for {:.3f} s", in_plan(names_.plan),
        first->first->describe(), first->of, names_of(first->have), told.empty() ? "" : ", not by " + names_of(told),
        silent.empty() ? "" : "; nothing is known of " + names_of(silent), first->seconds)};
    // What the missing ranks do instead usually names the line of the program at fault.
    for (const int rank : lack) lines.push_back(instead(rank, *first));
    return lines;
  }

  /// The longest wait for an operation that some ranks have not submitted.
  double longest_wait() const {
    double longest = 0;
    for (const auto& [key, waiting] : waiting_) {
      if (!lacking(waiting).empty()) longest = std::max(longest, waiting.seconds);
    }
    return longest;
  }

  std::string nothing_waits() const {
    const double longest = longest_wait();
    const std::string none = "no divergence" + in_plan(names_.plan);
    if (longest == 0) return none + ": all ranks have submitted the same, and nothing runs";
    return fmt::format("{}: the ranks are under way, and nothing has waited for longer than {:.3f} s", none, longest);
  }

  /// Null if the rank gave no record.
  const RankDump* record_of(int rank) const {
    const auto found =
        std::find_if(dumps_.begin(), dumps_.end(), [rank](const RankDump* each) { return each->rank == rank; });
    return found == dumps_.end() ? nullptr : *found;
  }

  /// Says what a rank does that has not submitted `awaited`: its oldest operation of the set in flight, or its last
  /// one.
  std::string instead(int rank, const Waiting& awaited) const {
    const RankDump* const found = record_of(rank);
    if (found == nullptr) return fmt::format("  nothing is known of {}: it gave no flight record", names_of({rank}));
    const RankDump& dump = *found;
    const std::string who = "  " + rank_name(rank, dump.host, dump.pid, dump.worker_of(rank));
    const std::string activity = dump.activity.empty() ? "" : "; it says: " + dump.activity;
    for (const DumpedOp& op : dump.operations) {
      if (op_is_over(op) || name_of_set(rank, op) != awaited.set) continue;
      return fmt::format("{} has {} instead, {} for {:.3f} s{}", who, op.describe() + dump.of_set(op.set),
                         name_of(op.state), std::max(dump.taken - op.when[static_cast<size_t>(op.state)], 0.0),
                         activity);
    }
    if (dump.operations.empty()) return fmt::format("{} has never submitted anything{}", who, activity);
    const DumpedOp& last = dump.operations.back();
    return fmt::format("{} has nothing of the set in flight; its last was {}, {} {:.3f} s ago{}", who,
                       last.describe() + dump.of_set(last.set), name_of(last.state),
                       std::max(dump.taken - last.when[static_cast<size_t>(last.state)], 0.0), activity);
  }

  /// The oldest batch of a set that has not ended everywhere.
  std::vector<std::string> unfinished_batch() const {
    const DumpedOp* first = nullptr;
    std::string set;
    std::string of;
    for (const RankDump* each : dumps_) {
      const RankDump& dump = *each;
      for (const DumpedOp& op : dump.operations) {
        if (in_agreement(op) || op_is_over(op)) continue;
        const std::string its_set = name_of_set(dump.rank, op);
        if (first != nullptr && std::pair(its_set, *op.batch) >= std::pair(set, *first->batch)) continue;
        first = &op;
        set = its_set;
        of = dump.of_set(op.set);
      }
    }
    if (first == nullptr) return {};
    std::map<OpState, std::set<int>> ranks;
    for (const RankDump* each : dumps_) {
      const RankDump& dump = *each;
      for (const DumpedOp& op : dump.operations) {
        if (op.batch == first->batch && name_of_set(dump.rank, op) == set) ranks[op.state].insert(dump.rank);
      }
    }
    std::vector<std::string> lines = {
        fmt::format("no divergence in what ranks submitted{}; batch {}{} is under way ({}, {})", in_plan(names_.plan),
                    *first->batch, of, first->algorithm, first->describe())};
    for (const auto& [state, who] : ranks) lines.push_back(fmt::format("  {}: {}", name_of(state), names_of(who)));
    return lines;
  }

  /// Names the joins that some members have not joined.
  std::vector<std::string> waiting_join() const {
    std::vector<std::string> lines;
    for (const auto& [set, join] : joined_) {
      const std::set<int> lack = lacking(join);
      if (lack.empty()) continue;
      const std::vector<int> joined(join.have.begin(), join.have.end());
      const std::vector<int> missing(lack.begin(), lack.end());
      lines.push_back(fmt::format("no divergence in what ranks submitted{}; join{}: {}", in_plan(names_.plan), join.of,
                                  who_joined(joined, missing, names_)));
      for (const int rank : lack) lines.push_back(instead(rank, join));
    }
    return lines;
  }

  std::string silent_ranks() const {
    std::set<int> silent;
    for (int rank = 0; rank < (dumps_.empty() ? 0 : dumps_.front()->size); ++rank) silent.insert(rank);
    for (const RankDump* dump : dumps_) silent.erase(dump->rank);
    std::erase_if(silent, [this](int rank) { return is_behind(names_.workers, rank); });
    return silent.empty() ? "" : fmt::format("no flight record came from {}", names_of(silent));
  }

  /// Whether the rank's worker has given a record of an earlier plan.
  bool is_behind(const std::vector<int64_t>& workers, int rank) const {
    return std::any_of(behind_.begin(), behind_.end(), [&](const RankDump* late) {
      return late->worker_of(late->rank) == workers[static_cast<size_t>(rank)];
    });
  }

  std::vector<const RankDump*> dumps_;    ///< of the latest plan
  std::vector<const RankDump*> behind_;   ///< of earlier plans
  std::vector<const RankDump*> outside_;  ///< of new workers that are in no plan yet
  RankNames names_;
  std::map<int, Sets> sets_;                      ///< by rank
  std::map<std::string, std::set<int>> members_;  ///< by set; also ranks that gave no record
  std::map<std::string, Waiting> joined_;         ///< by set
  std::map<Key, Waiting> waiting_;
};

}  // namespace

std::vector<std::string> first_divergence(std::span<const RankDump> dumps) { return Comparison(dumps).lines(); }

MergedDumps merge_dumps(std::span<const RankDump> dumps) {
  const Comparison comparison(dumps);
  nlohmann::ordered_json merged = {{"verdict", comparison.lines()}, {"ranks", nlohmann::ordered_json::array()}};
  for (const RankDump& dump : dumps) merged["ranks"].push_back(nlohmann::ordered_json::parse(to_json(dump)));
  return {merged.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), comparison.settled()};
}

}  // namespace rueda::core
