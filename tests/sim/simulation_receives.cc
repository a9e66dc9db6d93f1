// Receives from any rank in a simulation: a second, simpler bookkeeping of which receive waits behind which. A receive
// that got a source must have been the first that waited, and there must have been a message for it.
#include <algorithm>
#include <utility>

#include "runtime/agreement/set_members.h"
#include "tests/sim/simulation.h"

namespace rueda::sim {
namespace {

bool from_any(const core::Request& request) {
  return request.metadata.kind == core::OpKind::kSend && request.metadata.root < 0;
}

}  // namespace

/// The next occurrence of its key.
void Simulation::number(size_t rank, uint64_t ticket) {
  Ticket& self = records_[rank].tickets[ticket];
  self.held = false;
  self.occurrence = records_[rank].submitted[key_of(self.request)]++;
}

/// Whether it is a receive that is from any rank, or behind one.
bool Simulation::hold(size_t rank, uint64_t ticket) {
  Ticket& self = records_[rank].tickets[ticket];
  const core::Request& request = self.request;
  const bool receives = request.metadata.kind == core::OpKind::kSend && request.metadata.root != static_cast<int>(rank);
  auto& waiting = ranks_[rank].receives[request.name.str()];
  if (!receives || (waiting.empty() && !from_any(request))) return false;
  self.held = true;
  waiting.push_back(ticket);
  return true;
}

/// Receives from a certain rank at the front are proposed, up to the next one from any rank.
void Simulation::release(size_t rank, const std::string& name) {
  auto& waiting = ranks_[rank].receives[name];
  while (!waiting.empty() && !from_any(records_[rank].tickets[waiting.front()].request)) {
    number(rank, waiting.front());
    waiting.pop_front();
  }
}

void Simulation::bind(size_t rank, const core::SourceEvent& event) {
  Ticket& ticket = records_[rank].tickets[event.ticket];
  auto& waiting = ranks_[rank].receives[ticket.request.name.str()];
  if (waiting.empty() || waiting.front() != event.ticket)
    return fail("a receive that was not the next one has a source");
  say(rank, "ticket " + std::to_string(event.ticket) + " is from rank " + std::to_string(event.source));
  waiting.pop_front();
  ticket.request.metadata.root = event.source;
  ticket.request.set =
      number_in_job(rank, core::pair_number(static_cast<int>(rank), event.source, static_cast<int>(rank)));
  const std::string key = key_of(ticket.request);
  const auto& sent = records_[static_cast<size_t>(event.source)].submitted;
  const auto found = sent.find(key);
  if (found == sent.end() || found->second <= records_[rank].submitted[key]) fail(key + ": a source without a message");
  number(rank, event.ticket);
  release(rank, ticket.request.name.str());
}

/// A receive has failed. If it was not proposed, it never had a number among the occurrences of its key.
void Simulation::drop_receive(size_t rank, uint64_t ticket) {
  const auto known = records_[rank].tickets.find(ticket);
  if (known == records_[rank].tickets.end() || !known->second.held) return;
  const std::string name = known->second.request.name.str();
  auto& waiting = ranks_[rank].receives[name];
  const bool first = waiting.front() == ticket;
  std::erase(waiting, ticket);
  if (first) release(rank, name);
}

/// Returns them in the words of rank 0's report.
std::set<std::string> Simulation::receives_without_sender() const {
  std::set<std::string> all;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const auto& [name, waiting] : ranks_[rank].receives) {
      if (waiting.empty()) continue;
      const std::string what = name.empty() ? "without a name" : "\"" + name + "\"";
      all.insert("send " + what + " from any rank to rank " + std::to_string(rank));
    }
  }
  return all;
}

/// When nothing moves, no rank waits for a message from any rank that has been sent.
void Simulation::check_receives() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (const auto& [name, waiting] : ranks_[rank].receives) {
      const auto has_left = [&](size_t other) {  // or was dismissed
        const std::vector<int>& seen = records_[rank].goodbyes;
        return std::find(seen.begin(), seen.end(), static_cast<int>(other)) != seen.end();
      };
      if (waiting.empty() || has_left(rank) || has_left(0)) continue;
      for (const AddedSet& added : job_.added) {
        const auto pair = core::pair_of(added.name);
        if (!pair || pair->second != static_cast<int>(rank)) continue;
        const auto sender = static_cast<size_t>(pair->first);
        if (has_left(sender)) continue;
        core::Request sent{0, added.members.id, name, {}, 0};
        sent.metadata.kind = core::OpKind::kSend;
        const auto count = [&](size_t each) {
          const auto found = records_[each].submitted.find(key_of(sent));
          return found == records_[each].submitted.end() ? 0 : found->second;
        };
        if (added.posts && count(sender) > count(rank))
          fail("rank " + std::to_string(rank) + " waits for what was sent");
      }
    }
  }
}

void Simulation::release_name(size_t rank, const Ticket& ticket) {
  Rank& self = ranks_[rank];
  --self.pending;
  const auto name = std::find(self.in_flight.begin(), self.in_flight.end(), key_of(ticket.request));
  if (name != self.in_flight.end()) self.in_flight.erase(name);
}

}  // namespace rueda::sim
