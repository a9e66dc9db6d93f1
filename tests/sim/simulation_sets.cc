// Numbers of process sets in a simulation: those of the job, and those that a rank gives pairs.
#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/agreement/set_members.h"
#include "tests/sim/simulation.h"

namespace rueda::sim {

/// Returns the rank's own number for one of the job's sets.
core::SetId Simulation::own_number(size_t rank, core::SetId set) const {
  const AddedSet* added = added_set(job_, set);
  const auto pair = added == nullptr ? std::nullopt : core::pair_of(added->name);
  return pair ? core::pair_number(static_cast<int>(rank), pair->first, pair->second) : set;
}

core::SetId Simulation::number_in_job(size_t rank, core::SetId own) const {
  for (const AddedSet& added : job_.added) {
    const std::vector<int>& members = added.members.ranks;
    if (!std::binary_search(members.begin(), members.end(), static_cast<int>(rank))) continue;
    if (own_number(rank, added.members.id) == own) return added.members.id;
  }
  return own;
}

/// Counts what the participant proposed by itself, after what the rank submitted together.
void Simulation::skip_levelled(size_t rank) {
  for (const std::string& key : std::exchange(levelled_, {})) {
    say(rank, "counts as having submitted " + key);
    records_[rank].skipped[key].push_back(records_[rank].submitted[key]++);
  }
}

}  // namespace rueda::sim
