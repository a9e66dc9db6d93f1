// Inputs that ranks show before their batch is agreed (Turn::show_early). Each rank has two lines, as in shared memory.
// If a line has the stamp and the key of a batch, what it shows must be the rank's operation in that batch.
#include <string>

#include "tests/sim/simulation.h"

namespace rueda::sim {

void Simulation::show_early(size_t rank, uint64_t key, uint64_t ticket) {
  Rank& self = ranks_[rank];
  if (key == 0 || self.pending != 1) return;
  const uint64_t stamp = self.guess.show(ticket);
  self.lines[stamp & 1] = {stamp, key, ticket};
}

void Simulation::hide_early(size_t rank, uint64_t ticket) {
  Rank& self = ranks_[rank];
  if (self.guess.fail(ticket)) self.lines[self.guess.stamp() & 1] = {};
}

void Simulation::check_early(size_t rank, const SeenBatch& seen) {
  const core::BatchEvent& batch = seen.event;
  ranks_[rank].guess.take(batch);
  if (batch.key == 0 || batch.tickets.front() == core::kNoTicket) return;
  const auto& [name, occurrence] = seen.operations.front();
  for (size_t member = 0; member < ranks_.size(); ++member) {
    const Line& line = ranks_[member].lines[batch.stamp & 1];
    if (line.ticket == 0 || line.stamp != batch.stamp || line.key != batch.key) continue;
    ++came_true_;
    const Ticket& shown = records_[member].tickets.at(line.ticket);
    if (key_of(shown.request) == name && shown.occurrence == occurrence) continue;
    fail("rank " + std::to_string(member) + " shows ticket " + std::to_string(line.ticket) + " for batch " +
         std::to_string(batch.number) + " with " + name + ", which is another operation");
  }
}

}  // namespace rueda::sim
