// The simulator's loop: list everything that could happen now, pick one by the seed, do it, until nothing can happen. A
// frame waits on its link until it is picked, so every order that real links allow comes up for some seed. When nothing
// moves, what is pending waits for a rank that will not act: first the checks of that state, then one operation is
// given up, and at last all ranks say goodbye. `run` ends with the checks of record.h.
#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

namespace rueda::sim {

using core::BatchEvent;
using core::ErrorEvent;
using core::GoodbyeEvent;

Simulation::Simulation(uint64_t seed, int ranks, Trace trace)
    : job_(make_job(seed, ranks)), random_(~seed), trace_(std::move(trace)), arbiter_(with_trials(job_.config)) {
  core::AgreementConfig config = job_.config;
  ranks_.resize(static_cast<size_t>(config.size));
  records_.resize(ranks_.size());
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    config.rank = static_cast<int>(rank);
    if (job_.config.relayed) config.upstream = job_.tree.hosts[host_of(rank)].front();
    ranks_[rank].participant = std::make_unique<core::Participant>(config);
    ranks_[rank].lanes.resize(static_cast<size_t>(job_.lanes));
  }
  make_tree();
}

void Simulation::say(size_t rank, const std::string& what) const {
  if (trace_) trace_("rank " + std::to_string(rank) + ": " + what);
}

void Simulation::fail(const std::string& violation) {
  if (violation_.empty()) violation_ = violation;
}

std::string Simulation::run() {
  while (violation_.empty()) {
    const std::vector<Action> actions = possible();
    if (!actions.empty()) {
      actions[random_.below(actions.size())]();
    } else if (!unstick()) {
      break;
    }
  }
  check_relays();
  if (violation_.empty()) violation_ = check_batches(job_, records_);
  if (violation_.empty()) violation_ = check_sets(job_, records_);
  if (violation_.empty()) violation_ = check_joins(job_, records_);
  if (violation_.empty()) violation_ = check_outcomes(job_, records_);
  return violation_;
}

std::vector<Simulation::Action> Simulation::possible() {
  std::vector<Action> actions;
  if (plan_due_ && dead_ != 0) actions.emplace_back([this] { plan(); });
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (records_[rank].dead) continue;
    add_rank_actions(rank, actions);
    if (!actions.empty() && random_.once_in(40)) add_rare_actions(rank, actions);
  }
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!lives(host)) continue;
    add_host_actions(host, actions);
    if (!actions.empty() && random_.once_in(40)) add_rare_host_actions(host, actions);
  }
  return actions;
}

void Simulation::add_rank_actions(size_t rank, std::vector<Action>& actions) {
  Rank& self = ranks_[rank];
  if (may_step(rank)) actions.emplace_back([this, rank] { step(rank); });
  if (self.dirty) actions.emplace_back([this, rank] { flush(rank); });
  const bool heard = job_.config.relayed ? lives(host_of(rank)) : dead_ != 0;
  if (!self.up.empty() && heard) actions.emplace_back([this, rank] { deliver_up(rank); });
  if (!self.down.empty()) actions.emplace_back([this, rank] { deliver_down(rank); });
  for (size_t lane = 0; lane < self.lanes.size(); ++lane) {
    const bool waits = !self.lanes[lane].empty() && !self.lanes[lane].front().started;
    if (waits) actions.emplace_back([this, rank, lane] { start(rank, lane); });
  }
  if (dead_ >= 0 && !records_[rank].ended) actions.emplace_back([this, rank] { end(rank); });
}

void Simulation::add_rare_actions(size_t rank, std::vector<Action>& actions) {
  if (job_.abandons && !records_[rank].ended) actions.emplace_back([this, rank] { abandon_one(rank); });
  if (job_.goodbyes && random_.once_in(10)) actions.emplace_back([this, rank] { goodbye(rank); });
  if (job_.dies == static_cast<int>(rank)) actions.emplace_back([this, rank] { die(rank); });
}

/// Whether an operation of this rank is in flight in the set.
bool Simulation::uses(size_t rank, core::SetId set) const {
  const auto& tickets = records_[rank].tickets;
  const auto in_lane = [set](const Running& running) { return running.set == set; };
  for (const auto& lane : ranks_[rank].lanes) {
    if (std::any_of(lane.begin(), lane.end(), in_lane)) return true;
  }
  return std::any_of(tickets.begin(), tickets.end(),
                     [set](const auto& each) { return each.second.request.set == set && !each.second.outcome; });
}

bool Simulation::may_step(size_t rank) const {
  const Rank& self = ranks_[rank];
  if (self.next_step == job_.steps[rank].size()) return false;
  const Step& next = job_.steps[rank][self.next_step];
  if (next.kind == Step::Kind::kAddSet) return true;
  if (is_joined(records_[rank], next.set)) return false;
  if (next.kind == Step::Kind::kJoin) return true;
  if (next.kind == Step::Kind::kRemoveSet) return !uses(rank, next.set);
  if (self.pending >= job_.window) return false;
  return std::none_of(next.unit.begin(), next.unit.end(), [&self](const core::Request& request) {
    return !request.name.empty() && request.metadata.kind != core::OpKind::kSend &&
           std::find(self.in_flight.begin(), self.in_flight.end(), key_of(request)) != self.in_flight.end();
  });
}

void Simulation::step(size_t rank) {
  Rank& self = ranks_[rank];
  Step& next = job_.steps[rank][self.next_step++];
  self.dirty = true;
  switch (next.kind) {
    case Step::Kind::kSubmit: return submit(rank, std::move(next.unit));
    case Step::Kind::kJoin: return join(rank, next.set);
    case Step::Kind::kAddSet:
      say(rank, "adds set " + std::to_string(next.set));
      return self.participant->add_set(own_number(rank, next.set), next.ranks, added_set(job_, next.set)->name);
    case Step::Kind::kRemoveSet:
      say(rank, "removes set " + std::to_string(next.set));
      records_[rank].removed.push_back(next.set);
      return self.participant->remove_set(next.set);
  }
}

void Simulation::submit(size_t rank, Unit unit) {
  Rank& self = ranks_[rank];
  const bool grouped = unit.front().group != 0;
  if (grouped) core::describe_group(unit);
  const uint64_t first = next_ticket_;
  for (core::Request& request : unit) {
    request.ticket = next_ticket_++;
    request.group = grouped ? next_submission_ : 0;
    if (!grouped) ++next_submission_;
    Ticket& ticket = records_[rank].tickets[request.ticket];
    ticket.request = request;
    ticket.unit = next_submission_;
    ++self.pending;
    if (!request.name.empty()) self.in_flight.push_back(key_of(request));
    say(rank, "submits " + key_of(request) + " as ticket " + std::to_string(request.ticket) +
                  (grouped ? " in group " + std::to_string(next_submission_) : ""));
  }
  ++next_submission_;
  for (core::Request& request : unit) request.set = own_number(rank, request.set);
  show_early(rank, self.participant->submit(unit), first);
  take_events(rank, first);
  for (uint64_t id = first; id < next_ticket_; ++id) {
    if (!records_[rank].tickets[id].refused && !hold(rank, id)) number(rank, id);
  }
  skip_levelled(rank);
}

void Simulation::flush(size_t rank) {
  Rank& self = ranks_[rank];
  self.dirty = false;
  for (Frame frame = self.participant->take_frame(); !frame.empty(); frame = self.participant->take_frame()) {
    say(rank, "sends " + std::to_string(frame.size()) + " bytes");
    self.up.push_back(std::move(frame));
  }
}

void Simulation::deliver_up(size_t rank) {
  const Frame frame = std::move(ranks_[rank].up.front());
  ranks_[rank].up.pop_front();
  if (job_.config.relayed) return to_relay(rank, frame);
  say(rank, "is heard by rank 0");
  if (const core::Status status = arbiter_.receive(static_cast<int>(rank), frame); !status.ok())
    fail(status.sentence());
  plan_due_ = true;
}

void Simulation::plan() {
  plan_due_ = false;
  arbiter_.plan();
  for (Frame frame = arbiter_.take_addressed(); !frame.empty(); frame = arbiter_.take_addressed()) {
    hosts_.front().down.push_back(std::move(frame));
    host_down(0);
  }
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    const bool rings = arbiter_.must_ring(rank);
    for (Frame frame = arbiter_.take_frame(rank); !frame.empty(); frame = arbiter_.take_frame(rank)) {
      ranks_[static_cast<size_t>(rank)].down.push_back({std::move(frame), rings});
    }
  }
}

void Simulation::deliver_down(size_t rank) {
  Rank& self = ranks_[rank];
  const Verdicts next = std::move(self.down.front());
  self.down.pop_front();
  if (records_[rank].ended) return;
  if (!next.rings && !expects(rank)) fail("a batch came for rank " + std::to_string(rank) + ", which expects nothing");
  if (const core::Status status = self.participant->receive(next.frame); !status.ok()) fail(status.sentence());
  self.dirty = true;  // it may have evictions to tell
  take_events(rank, next_ticket_);
  skip_levelled(rank);
}

void Simulation::take_events(size_t rank, uint64_t submitted_from) {
  for (const core::Event& event : ranks_[rank].participant->take_events()) {
    if (const auto* batch = std::get_if<BatchEvent>(&event)) {
      take_batch(rank, *batch);
    } else if (const auto* error = std::get_if<ErrorEvent>(&event)) {
      for (const uint64_t id : error->tickets) {
        if (end_join(rank, id, -1)) continue;
        Ticket& ticket = records_[rank].tickets[id];
        const bool over = error->status.code() == core::Code::kShutDown || records_[rank].ended;
        ticket.refused = over && id >= submitted_from;
        say(rank, "ticket " + std::to_string(id) + " fails: " + error->status.sentence());
        drop_receive(rank, id);
        hide_early(rank, id);
        complete(rank, id, {-1, 0, error->status});
        release_name(rank, ticket);
      }
    } else if (const auto* join = std::get_if<core::JoinEvent>(&event)) {
      say(rank, "join " + std::to_string(join->ticket) + " ends: rank " + std::to_string(join->last) + " was the last");
      if (!end_join(rank, join->ticket, join->last)) fail("a join ended that no rank asked for");
    } else if (const auto* set = std::get_if<core::SetEvent>(&event)) {
      const core::SetId number = number_in_job(rank, set->number);
      say(rank, "set " + std::to_string(number) + " has id " + std::to_string(set->members.id));
      records_[rank].made[number] = set->members.id;
      if (set->members.ranks != members_of(job_, number).ranks) fail("a set was made with other ranks");
    } else if (const auto* source = std::get_if<core::SourceEvent>(&event)) {
      bind(rank, *source);
    } else if (const auto* level = std::get_if<core::LevelEvent>(&event)) {
      core::Request request;
      request.set = number_in_job(rank, level->set);
      request.name = level->name;
      request.metadata.kind = level->kind;
      levelled_.push_back(key_of(request));
    } else {
      records_[rank].goodbyes.push_back(std::get<GoodbyeEvent>(event).rank);
      say(rank, "sees the goodbye of rank " + std::to_string(records_[rank].goodbyes.back()));
    }
  }
}

void Simulation::take_batch(size_t rank, const BatchEvent& given) {
  BatchEvent batch = given;
  for (const auto& [number, id] : records_[rank].made) {
    if (id == given.set) batch.set = number;
  }
  SeenBatch seen{batch, {}};
  for (const uint64_t id : batch.tickets) {
    if (id == core::kNoTicket) {
      if (!is_joined(records_[rank], batch.set)) fail("a rank that has not joined is left out");
      seen.operations.emplace_back();
      continue;
    }
    const Ticket& ticket = records_[rank].tickets[id];
    seen.operations.emplace_back(key_of(ticket.request), ticket.occurrence);
    complete(rank, id, {static_cast<int>(batch.set), batch.number, {}, runs_in_place(batch.choice)});
  }
  say(rank, "gets batch " + std::to_string(batch.number) + " of set " + std::to_string(batch.set) + " with " +
                std::to_string(batch.tickets.size()) + " tensors from " + seen.operations.front().first);
  check_early(rank, seen);
  records_[rank].batches.push_back(std::move(seen));
  auto& lanes = ranks_[rank].lanes;
  lanes[given.set % lanes.size()].push_back({batch.set, given.set, batch.number, batch.tickets, batch.choice.trial});
}

void Simulation::complete(size_t rank, uint64_t id, Outcome outcome) {
  const auto known = records_[rank].tickets.find(id);
  if (known == records_[rank].tickets.end() || known->second.outcome) {
    return fail("rank " + std::to_string(rank) + ": ticket " + std::to_string(id) + " is in two events, or unknown");
  }
  known->second.outcome = std::move(outcome);
}

void Simulation::start(size_t rank, size_t lane) {
  Running& head = ranks_[rank].lanes[lane].front();
  head.started = true;
  ranks_[rank].participant->started(head.id, head.number);
  ranks_[rank].dirty = true;
  finish_heads();
}

bool Simulation::head_is(size_t rank, core::SetId id, uint64_t number) const {
  const auto& lane = ranks_[rank].lanes[id % ranks_[rank].lanes.size()];
  return !lane.empty() && lane.front().started && lane.front().id == id && lane.front().number == number;
}

/// A batch ends when all members run it, as a collective does.
void Simulation::finish_heads() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    for (auto& lane : ranks_[rank].lanes) {
      if (lane.empty() || !lane.front().started) continue;
      const Running& head = lane.front();
      const core::SetId set_id = head.id;
      const std::vector<int>& members = members_of(job_, head.set).ranks;
      const bool all = std::all_of(members.begin(), members.end(), [&](int member) {
        return head_is(static_cast<size_t>(member), head.id, head.number);
      });
      if (!all) continue;
      for (const int member : members) {
        const auto index = static_cast<size_t>(member);
        auto& theirs = ranks_[index].lanes[set_id % ranks_[index].lanes.size()];
        for (const uint64_t id : theirs.front().tickets) {
          if (id != core::kNoTicket) release_name(index, records_[index].tickets[id]);
        }
        report_time(index, theirs.front());
        theirs.pop_front();
      }
    }
  }
}

bool Simulation::abandon_one(size_t rank) {
  std::vector<uint64_t> pending;
  for (const auto& [id, ticket] : records_[rank].tickets) {
    if (!ticket.outcome) pending.push_back(id);
  }
  if (pending.empty()) return false;
  const uint64_t id = random_.pick(pending);
  Ticket& ticket = records_[rank].tickets[id];
  const std::string sentence = "rank " + std::to_string(rank) + " gave up ticket " + std::to_string(id);
  say(rank, "abandons ticket " + std::to_string(id));
  ticket.abandoned = true;
  ranks_[rank].participant->abandon(id, sentence);
  ranks_[rank].dirty = true;
  take_events(rank, next_ticket_);
  return true;
}

void Simulation::goodbye(size_t rank) {
  if (ranks_[rank].said_goodbye || records_[rank].dead) return;
  say(rank, "says goodbye");
  ranks_[rank].said_goodbye = true;
  ranks_[rank].participant->goodbye();
  ranks_[rank].dirty = true;
}

void Simulation::die(size_t rank) {
  say(rank, "dies");
  dead_ = static_cast<int>(rank);
  job_.dies = -1;
  records_[rank].dead = true;
  Rank& self = ranks_[rank];
  self.up.resize(self.up.empty() ? 0 : random_.below(self.up.size()));
  self.down.clear();
  const bool leads = job_.config.relayed && leader_of(host_of(rank)) == rank;
  while (!self.up.empty() && rank != 0 && !leads) deliver_up(rank);
  if (leads) lose_host(host_of(rank));
}

/// What the driver does on a survivor once the judge has spoken: what is pending fails, what runs is stopped.
void Simulation::end(size_t rank) {
  records_[rank].ended = true;
  ranks_[rank].participant->end(core::Status(core::Code::kPeerLost, "rank " + std::to_string(dead_) + " died", dead_));
  take_events(rank, next_ticket_);
  for (auto& lane : ranks_[rank].lanes) {
    for (const Running& running : lane) {
      for (const uint64_t id : running.tickets) {
        if (id != core::kNoTicket) release_name(rank, records_[rank].tickets[id]);
      }
    }
    lane.clear();
  }
}

/// Called when nothing can happen by itself: what is pending waits for a rank that will not act. Gives one operation
/// up, or lets all ranks say goodbye. Returns false if all is done.
bool Simulation::unstick() {
  if (release_held()) return true;
  if (dead_ < 0) check_stalled();
  if (dead_ < 0) check_receives();
  if (std::string lost = check_nothing_lost(job_, records_); !lost.empty()) fail(lost);
  if (dead_ < 0 && arbiter_.out_of_credit()) fail("a credit was lost: rank 0 waits for one and nothing runs");
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (records_[rank].dead) continue;
    for (const auto& [id, ticket] : records_[rank].tickets) {
      if (!ticket.outcome && ticket.abandoned) fail("abandoned ticket " + std::to_string(id) + " never ended");
    }
    for (const auto& lane : ranks_[rank].lanes) {
      if (!lane.empty()) fail("rank " + std::to_string(rank) + ": a lane never gets on");
    }
    if (!violation_.empty()) return true;
    if (abandon_one(rank)) return true;
  }
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool stuck = !records_[rank].dead && ranks_[rank].next_step != job_.steps[rank].size();
    if (stuck) fail("rank " + std::to_string(rank) + " is stuck");
  }
  return all_say_goodbye();
}

}  // namespace rueda::sim
