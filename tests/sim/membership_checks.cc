// The promises about the state that a job trains: who is rank 0 of a world that forms, and when a job may say that no
// worker has the state any more.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "tests/sim/membership_simulation.h"

namespace rueda::sim {

using namespace core::launcher;

// A rank 0 without state is allowed only if no rank has it that held it for longer as far as hvdrun can know: of those
// that came with it, in a plan that ended while the state came over, some may have it and some not.
void MembershipSimulation::check_state(const core::Plan& plan) {
  const auto held_since = [&](int64_t id) {
    if (plans_.at(1).rank_of(id) >= 0) return uint64_t{0};
    const auto found = held_since_.find(id);
    return found == held_since_.end() ? plan.number : found->second;
  };
  const int64_t root = plan.workers.front().id;
  for (const auto& member : plan.workers) {
    if (!processes_.at(root).has_state && processes_.at(member.id).has_state &&
        held_since(member.id) < held_since(root))
      fail(fmt::format("rank 0 of plan {}, worker {}, has no state, but worker {} has", plan.number, root, member.id));
  }
}

void MembershipSimulation::check_end(const EndJob& order) {
  if (order.exit_code == 0) {
    if (!well_known_ && !left_known_) fail("the job succeeds, but no worker ended well or has shut down");
    return;
  }
  if (well_known_) fail(fmt::format("the job fails although a worker ended well: {}", order.sentence));
  if (order.sentence.empty()) fail("the job fails without a sentence");
  if (order.sentence.find("no worker is left") == std::string::npos) return;
  for (const int64_t id : known_holders_) {
    const Process& process = processes_.at(id);
    if (!known_ends_.contains(id) && !process.killed && !removed_.contains(id))
      fail(fmt::format("the job says that the state is lost, but worker {} holds it", id));
  }
}

}  // namespace rueda::sim
