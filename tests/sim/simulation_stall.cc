#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/sim/simulation.h"

namespace rueda::sim {

/// When nothing moves, what rank 0 calls stalled is what some members of a set have pending and others have not:
/// always, and in the set of all ranks nothing is left out (another set may not be made yet).
void Simulation::check_stalled() {
  std::map<std::string, std::vector<int>> pending;  // ranks, by key
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].said_goodbye) return;
    for (const auto& [id, ticket] : records_[rank].tickets) {
      if (!ticket.outcome && !ticket.request.name.empty()) {
        pending[key_of(ticket.request)].push_back(static_cast<int>(rank));
      }
    }
  }
  clock_ += std::chrono::seconds(1);
  std::set<std::string> named;  // in the set of all ranks
  for (const core::Stalled& each : arbiter_.stalled(clock_)) {
    if (each.lack.empty()) fail(each.what + " is called stalled, but every member has proposed it");
    if (!each.operation) continue;
    const size_t quote = each.what.find('"');
    if (quote == std::string::npos) continue;  // unnamed
    const std::string name = each.what.substr(quote + 1, each.what.size() - quote - 2);
    const bool known = std::any_of(pending.begin(), pending.end(), [&](const auto& one) {
      return one.first.ends_with("/" + name) && one.second == each.have;
    });
    if (!known) fail(each.what + " is called stalled, but not these ranks wait for it");
    if (each.set == core::kGlobalSet) named.insert("0/" + name);
  }
  for (const auto& [key, ranks] : pending) {
    if (!key.starts_with("0/") || ranks.size() == ranks_.size() || named.count(key) != 0) continue;
    fail(key + " waits for ranks, and rank 0 does not say so");
  }
}

}  // namespace rueda::sim
