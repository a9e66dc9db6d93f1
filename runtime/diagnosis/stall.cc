// From what waits to what is worth saying. Everything that waits for the same ranks is one report, since it has one
// cause. A report is made when the oldest of it has waited for the warning time, and again each time its age has
// doubled.
//
//   stalled, the oldest first ─▶ group by (kind, set, batch, missing ranks) ─▶ due? ─▶ divergence? ─▶ reports
//
// Two reports can be the two sides of one divergence: ranks 0-2 wait in "a" for rank 3, which waits in "b" for them.
// Only one is kept, that of the side whose missing ranks are fewer, because these have more likely gone astray.
#include "runtime/diagnosis/stall.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <iterator>

#include "runtime/diagnosis/set_words.h"

namespace rueda::core {
namespace {

bool overlap(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(), [&b](int rank) { return std::binary_search(b.begin(), b.end(), rank); });
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (names.size() < StallJudge::kMostNames) names.push_back(name);
}

/// Names `other` in a report that may be about another set.
std::string name_beside(const StallReport& report, const Stalled& other) {
  if (other.set == report.set) return other.what;
  return other.what + (other.of.empty() ? " of all ranks" : other.of);
}

/// Looks for operations that the missing ranks of `report` have submitted, in this set or another one, and that the
/// ranks waiting for them have not.
void find_divergence(StallReport& report, const std::vector<Stalled>& stalled) {
  for (const Stalled& other : stalled) {
    if (other.kind > StallKind::kSet || !overlap(other.have, report.lack) || !overlap(other.lack, report.have))
      continue;
    report.divergence = true;
    add_name(report.instead, name_beside(report, other));
    std::set_intersection(other.have.begin(), other.have.end(), report.lack.begin(), report.lack.end(),
                          std::back_inserter(report.elsewhere));
  }
  std::sort(report.elsewhere.begin(), report.elsewhere.end());
  report.elsewhere.erase(std::unique(report.elsewhere.begin(), report.elsewhere.end()), report.elsewhere.end());
}

/// Returns the report in `said` that is the other side of this divergence, or null.
StallReport* other_side(const StallReport& report, std::vector<StallReport>& said) {
  const auto found = std::find_if(said.begin(), said.end(), [&report](const StallReport& other) {
    return report.divergence && other.divergence && overlap(other.have, report.lack) &&
           overlap(other.lack, report.have);
  });
  return found == said.end() ? nullptr : &*found;
}

/// Whether fewer ranks are missing in `a`. Of equally many, the higher ranks count as those that left the others.
bool fewer_left(const StallReport& a, const StallReport& b) {
  return std::pair(a.lack.size(), b.lack.front()) < std::pair(b.lack.size(), a.lack.front());
}

}  // namespace

StallVerdict StallJudge::look(std::vector<Stalled> stalled) {
  std::stable_sort(stalled.begin(), stalled.end(), [](const Stalled& a, const Stalled& b) { return a.age > b.age; });
  std::map<Waiting, StallReport> reports;
  std::vector<Waiting> order;
  for (const Stalled& one : stalled) {
    const Waiting waiting{one.kind, one.set, one.batch, one.lack};
    if (one.age < warning_) continue;
    const auto [found, fresh] = reports.try_emplace(waiting);
    StallReport& report = found->second;
    if (fresh) {
      order.push_back(waiting);
      report.kind = one.kind;
      report.set = one.set;
      report.batch = one.batch;
      report.of = one.of;
      report.have = one.have;
      report.lack = one.lack;
      report.age = one.age;
    }
    report.what.size() < kMostNames ? report.what.push_back(one.what) : static_cast<void>(++report.more);
  }
  // What no longer waits is forgotten, so that it is reported at once if it ever waits again.
  std::erase_if(next_, [&reports](const auto& known) { return reports.count(known.first) == 0; });
  StallVerdict verdict;
  for (const Waiting& waiting : order) {
    StallReport& report = reports.at(waiting);
    auto& next = next_.try_emplace(waiting, warning_).first->second;
    // A set that is never made may be one that nobody uses, and a batch that runs has a limit of its own.
    const bool may_end = report.kind == StallKind::kOperation || report.kind == StallKind::kJoin;
    report.over = may_end && shutdown_.count() > 0 && report.age >= shutdown_;
    if (report.age < next && !report.over) continue;
    while (next <= report.age) next *= 2;
    verdict.shut_down = verdict.shut_down || report.over;
    if (report.kind <= StallKind::kSet) find_divergence(report, stalled);
    if (StallReport* other = other_side(report, verdict.reports)) {
      if (fewer_left(report, *other)) *other = std::move(report);
      continue;
    }
    if (verdict.reports.size() < kMostReports) {
      verdict.reports.push_back(std::move(report));
    } else {
      ++verdict.more;
    }
  }
  return verdict;
}

std::string describe(const StallReport& report, const RankNames& names) {
  std::string what = fmt::format("{}", fmt::join(report.what, ", "));
  if (report.more > 0) what += fmt::format(" and {} more", report.more);
  what += report.of;
  const double seconds = std::chrono::duration<double>(report.age).count();
  const std::string since = fmt::format("for {:.1f} s{}", seconds, in_plan(names.plan));
  if (report.kind == StallKind::kRunning) return fmt::format("stall {}: {} is running", since, what);
  const std::string who =
      report.kind == StallKind::kJoin
          ? who_joined(report.have, report.lack, names)
          : fmt::format("submitted by {}, not by {}", rank_ranges(report.have, names), rank_ranges(report.lack, names));
  if (!report.divergence) return fmt::format("stall {}: {}: {}", since, what, who);
  const bool all = report.elsewhere == report.lack;
  const std::string these = all ? ", which" : "; " + rank_ranges(report.elsewhere, names);
  return fmt::format("divergence {}: {}: {}{} submitted {} instead: each side waits for the other", since, what, who,
                     these, fmt::join(report.instead, ", "));
}

}  // namespace rueda::core
