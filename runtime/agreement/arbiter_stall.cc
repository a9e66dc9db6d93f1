// What is missing, for the stall report: occurrences, joins, process sets and probes that some ranks have asked for and
// others not. The engine calls `stalled` about once a second. Nothing on the way of a proposal reads a clock: the age
// of a thing counts from the first call that saw it, which is exact enough for limits of seconds and costs agreement
// nothing.
#include <algorithm>
#include <utility>

#include "runtime/agreement/arbiter_state.h"
#include "runtime/base/printable.h"
#include "runtime/base/rank_ranges.h"
#include "runtime/diagnosis/set_words.h"

namespace rueda::core {

std::vector<Stalled> Arbiter::stalled(SteadyClock::time_point now) {
  std::vector<Stalled> found;
  for (State::Entry& entry : state_->entries) {
    // Entries are recycled, so free ones are skipped: they have nothing open.
    if (entry.open.empty() || entry.evicted || entry.set->ended) continue;
    for (size_t i = 0; i < entry.open.size(); ++i) {
      State::Occurrence& occurrence = entry.open[i];
      // Only these wait for a rank. An agreed one waits for the rest of its group, which is reported itself, and a
      // ready one for credit.
      if (occurrence.stage != State::Stage::kCollecting) continue;
      if (occurrence.seen == SteadyClock::time_point{}) occurrence.seen = now;
      found.push_back(state_->describe_stalled({&entry, entry.base + i}, now));
    }
  }
  state_->find_stalled_joins(now, found);
  state_->find_stalled_sets(now, found);
  state_->find_stalled_probes(now, found);
  return found;
}

/// Ranks with more data go on while others wait in a join, so a join is stalled only while nothing is decided in its
/// set. If an operation of the set waits too, its report names the missing ranks better, and the join is not reported.
void Arbiter::State::find_stalled_joins(SteadyClock::time_point now, std::vector<Stalled>& found) {
  // Joins are compared with the operations found before them, not with each other.
  const size_t count = found.size();
  for (auto& [id, set] : sets) {
    const bool moved = std::exchange(set.decided_before, set.decided) != set.decided;
    if (moved || set.quiet_since == SteadyClock::time_point{}) set.quiet_since = now;
    if (set.joined_count == 0 || set.joined_count == set.joined.size() || set.ended) continue;
    const auto ours = [set_id = id](const Stalled& other) { return other.set == set_id; };
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
    if (std::any_of(found.begin(), end, ours)) continue;
    Stalled stalled{.set = id, .what = "join", .age = now - set.quiet_since, .kind = StallKind::kJoin};
    stalled.of = of_set(set);
    for (size_t member = 0; member < set.joined.size(); ++member) {
      (set.joined[member] != 0 ? stalled.have : stalled.lack).push_back(set.members.ranks[member]);
    }
    std::sort(stalled.have.begin(), stalled.have.end());
    std::sort(stalled.lack.begin(), stalled.lack.end());
    found.push_back(std::move(stalled));
  }
}

/// Sets that some members have asked for and others not: nearly always a call that one rank skips.
void Arbiter::State::find_stalled_sets(SteadyClock::time_point now, std::vector<Stalled>& found) {
  for (auto& [asked, key] : set_keys) {
    const auto& [name, members] = asked;
    for (size_t i = 0; i < key.open.size(); ++i) {
      if (!key.open[i].refused.ok()) continue;
      if (key.open[i].seen == SteadyClock::time_point{}) key.open[i].seen = now;
      Stalled& stalled = found.emplace_back();
      stalled.kind = StallKind::kSet;
      stalled.age = now - key.open[i].seen;
      // A set in the making has no id yet, so it is named by its list.
      stalled.what = "the making of " + set_words(name, members);
      for (size_t member = 0; member < members.size(); ++member) {
        (key.counts[member] > key.base + i ? stalled.have : stalled.lack).push_back(members[member]);
      }
    }
  }
}

Stalled Arbiter::State::describe_stalled(const Ref& ref, SteadyClock::time_point now) const {
  const Entry& entry = *ref.entry;
  const Occurrence& occurrence = entry.open[ref.occurrence - entry.base];
  Stalled stalled;
  stalled.set = entry.set->members.id;
  stalled.of = of_set(*entry.set);
  stalled.age = now - occurrence.seen;
  stalled.what = name_of(metadata_of(entry, occurrence).kind);
  stalled.what += entry.name.empty() ? " #" + std::to_string(ref.occurrence) : " \"" + printable(entry.name) + "\"";
  for (size_t member = 0; member < entry.counts.size(); ++member) {
    const bool has = entry.counts[member] > ref.occurrence;
    if (!has && entry.set->joined[member] != 0) continue;  // absent: it is not waited for
    (has ? stalled.have : stalled.lack).push_back(entry.set->members.ranks[member]);
  }
  std::sort(stalled.have.begin(), stalled.have.end());
  std::sort(stalled.lack.begin(), stalled.lack.end());
  return stalled;
}

/// Stands behind the name of an operation. Empty for the set of all ranks, which a reader takes for granted.
std::string Arbiter::State::of_set(const Set& set) {
  return set.members.id == kGlobalSet ? "" : core::of_set(set.name, set.members.ranks);
}

/// "submitted by ranks 0-1 (host a), not by rank 2 (host b)".
std::string Arbiter::State::who_has(const Ref& ref) const {
  const Stalled stalled = describe_stalled(ref, {});
  return "submitted by " + rank_ranges(stalled.have, config.names) + ", not by " +
         rank_ranges(stalled.lack, config.names);
}

}  // namespace rueda::core
