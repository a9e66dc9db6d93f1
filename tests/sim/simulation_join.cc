// Joins in a simulation. What a join's end must do to a rank's counters is worked out here from what all members had
// submitted, not from what agreement says.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace rueda::sim {

void Simulation::join(size_t rank, core::SetId set) {
  core::Request request;
  request.ticket = next_ticket_++;
  request.set = set;
  request.metadata.kind = core::OpKind::kJoin;
  say(rank, "joins set " + std::to_string(set) + " as ticket " + std::to_string(request.ticket));
  records_[rank].joins.push_back({set, request.ticket, false, -1});
  ranks_[rank].participant->submit({&request, 1});
  note_maximum(set);
  take_events(rank, next_ticket_);
}

/// Notes the counters when all members have joined. None of them moves until the members hear of the end.
void Simulation::note_maximum(core::SetId set) {
  std::map<std::string, uint64_t> most;
  const std::string prefix = std::to_string(set) + "/";
  const std::vector<int>& members = members_of(job_, set).ranks;
  const auto joins_of = [&](int rank) {
    const std::vector<Join>& joins = records_[static_cast<size_t>(rank)].joins;
    return std::count_if(joins.begin(), joins.end(), [set](const Join& join) { return join.set == set; });
  };
  for (const int rank : members) {
    const RankRecord& record = records_[static_cast<size_t>(rank)];
    if (!is_joined(record, set) || joins_of(rank) != joins_of(members.front())) return;
    for (const auto& [key, count] : record.submitted) {
      if (key.compare(0, prefix.size(), prefix) == 0) most[key] = std::max(most[key], count);
    }
  }
  maximum_[set] = most;
}

/// Returns false if the ticket does not belong to a join. `last` is -1 if the join failed.
bool Simulation::end_join(size_t rank, uint64_t ticket, int last) {
  RankRecord& record = records_[rank];
  const auto found = std::find_if(record.joins.begin(), record.joins.end(),
                                  [ticket](const Join& join) { return join.ticket == ticket; });
  if (found == record.joins.end()) return false;
  if (found->ended) fail("rank " + std::to_string(rank) + ": a join ended twice");
  found->ended = true;
  found->last = last;
  if (last < 0) return true;
  for (const auto& [key, most] : maximum_[found->set]) {
    for (uint64_t& count = record.submitted[key]; count < most; ++count) record.skipped[key].push_back(count);
  }
  return true;
}

/// Whether the rank's engine would rest expecting: it has heard of no verdict for something that it asked for.
bool Simulation::expects(size_t rank) const {
  const RankRecord& record = records_[rank];
  return std::any_of(record.joins.begin(), record.joins.end(), [](const Join& join) { return !join.ended; }) ||
         std::any_of(record.tickets.begin(), record.tickets.end(),
                     [](const auto& each) { return !each.second.outcome; });
}

}  // namespace rueda::sim
