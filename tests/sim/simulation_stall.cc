// What rank 0 reports as stalled, held against what is really pending when nothing moves.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/sim/simulation.h"

namespace rueda::sim {

/// When nothing moves, what rank 0 calls stalled is what some members of a set have pending and others have not:
/// always, and in the set of all ranks nothing is left out (another set may not be made yet). A join that waits is told
/// where no operation of the set waits.
void Simulation::check_stalled() {
  std::map<std::string, std::vector<int>> pending;  // ranks, by key
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].said_goodbye) return;
    for (const auto& [id, ticket] : records_[rank].tickets) {
      if (!ticket.outcome && !ticket.request.name.empty() && !ticket.held) {
        std::vector<int>& waiting = pending[key_of(ticket.request)];  // a send may be there several times
        if (waiting.empty() || waiting.back() != static_cast<int>(rank)) waiting.push_back(static_cast<int>(rank));
      }
    }
  }
  clock_ += std::chrono::seconds(1);
  std::set<std::string> named;  // in the set of all ranks
  std::vector<int> joined;      // as rank 0 says of it
  bool waits = false;           // an operation of it
  std::set<std::string> asking = receives_without_sender();
  for (const core::Stalled& each : arbiter_.stalled(clock_)) {
    if (each.lack.empty()) fail(each.what + " is called stalled, but every member has proposed it");
    if (each.kind == core::StallKind::kJoin && each.set == core::kGlobalSet) joined = each.have;
    if (each.set == core::kGlobalSet && each.kind == core::StallKind::kOperation) waits = true;
    if (each.kind != core::StallKind::kOperation) continue;
    if (each.what.find(" from any rank to rank ") != std::string::npos) {
      if (asking.erase(each.what) == 0) fail(each.what + " is called stalled, but that rank waits for none");
      continue;
    }
    const size_t quote = each.what.find('"');
    if (quote == std::string::npos) continue;  // unnamed
    const std::string name = each.what.substr(quote + 1, each.what.size() - quote - 2);
    const bool known = std::any_of(pending.begin(), pending.end(), [&](const auto& one) {
      return one.first.ends_with("/" + name) && one.second == each.have;
    });
    if (!known) fail(each.what + " is called stalled, but not these ranks wait for it");
    if (each.set == core::kGlobalSet) named.insert("0/" + name);
  }
  if (!asking.empty()) fail(*asking.begin() + ": rank 0 does not say that it waits");
  std::vector<int> joining;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (is_joined(records_[rank], core::kGlobalSet)) joining.push_back(static_cast<int>(rank));
  }
  const bool join_waits = !waits && joining.size() != ranks_.size();
  if (joined != (join_waits ? joining : std::vector<int>())) fail("rank 0 does not know which ranks wait in a join");
  for (const auto& [key, ranks] : pending) {
    if (!key.starts_with("0/") || ranks.size() == ranks_.size() || named.count(key) != 0) continue;
    fail(key + " waits for ranks, and rank 0 does not say so");
  }
}

}  // namespace rueda::sim
