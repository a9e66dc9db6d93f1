// One large job in the tree of relays, in one thread: how frames move. Only links with something on them are looked at,
// since looking at 4,096 ranks for each frame would take hours. scale_story.cc tells what happens in the job.
#include "tests/sim/scale.h"

#include <algorithm>
#include <numeric>

#include "runtime/engine/turn.h"
#include "tests/sim/scale_run.h"

namespace rueda::sim {
namespace {

using core::AgreementConfig;
using core::ControlTree;
using core::Participant;
using core::Relay;
using Frame = std::vector<std::byte>;

std::vector<int> hosts_of(const ScaleJob& job) {
  std::vector<int> host_of;
  for (int rank = 0; rank < job.ranks; ++rank) {
    host_of.push_back(static_cast<int>(int64_t{rank} * job.hosts / job.ranks));
  }
  return host_of;
}

}  // namespace

Scale::Scale(const ScaleJob& job)
    : job_(job), random_(job.seed), host_of_(hosts_of(job)), tree_(host_of_), ranks_(static_cast<size_t>(job.ranks)) {
  make();
}

void Scale::make() {
  config_.epoch = 1;
  config_.size = job_.ranks;
  config_.relayed = true;
  config_.host_of = host_of_;
  plan_.epoch = config_.epoch;
  plan_.size = job_.ranks;
  plan_.host_of = host_of_;
  plan_.settings.control_tree = core::Choice::kForce;
  std::vector<int> all(static_cast<size_t>(job_.ranks));
  std::iota(all.begin(), all.end(), 0);
  for (const int host : host_of_) config_.names.hosts.push_back("h" + std::to_string(host));
  config_.sets = {core::arrange_set(core::kGlobalSet, all, host_of_)};
  config_.select = [](const core::BatchShape&) -> core::Result<core::AlgorithmChoice> {
    return core::AlgorithmChoice{};
  };
  arbiter_ = std::make_unique<core::Arbiter>(config_);
  for (int number = 0; number < tree_.hosts(); ++number) {
    ScaleHost& made = hosts_.emplace_back();
    made.locals = tree_.local(number);
    made.below = tree_.children(number);
    plan_.rank = made.locals.front();
    made.relay = std::make_unique<Relay>(*core::relay_config(plan_, config_.sets));
  }
  for (int number = 0; number < job_.ranks; ++number) {
    AgreementConfig own = config_;
    own.rank = number;
    rank(number).participant = std::make_unique<Participant>(own);
  }
  report_.tree_depth = tree_.depth();
}

void Scale::submit(int number, int tensor, int64_t elements) {
  core::Request request;
  request.ticket = rank(number).next_ticket++;
  request.name = "layer" + std::to_string(tensor);
  request.metadata.shape = {elements};
  ++rank(number).pending;
  rank(number).participant->submit({&request, 1});
  collect(number);
}

void Scale::submit_join(int number) {
  core::Request request;
  request.ticket = rank(number).next_ticket++;
  request.metadata.kind = core::OpKind::kJoin;
  ++rank(number).pending;
  rank(number).participant->submit({&request, 1});
  collect(number);
}

void Scale::collect(int number) {
  ScaleRank& self = rank(number);
  for (const core::Event& event : self.participant->take_events()) {
    if (const auto* batch = std::get_if<core::BatchEvent>(&event)) {
      for (const uint64_t ticket : batch->tickets) self.pending -= ticket != core::kNoTicket ? 1 : 0;
      self.order = (self.order ^ batch->number) * 0x100000001b3u + batch->tickets.size();
      if (number == 0) self.participant->started(batch->set, batch->number);
    } else if (const auto* error = std::get_if<core::ErrorEvent>(&event)) {
      self.pending -= error->tickets.size();
      for (size_t i = 0; i < error->tickets.size(); ++i) self.errors.push_back(error->status.sentence());
    } else if (const auto* joined = std::get_if<core::JoinEvent>(&event)) {
      --self.pending;
      self.last_joined = joined->last;
    }
  }
}

/// What a host's ranks and relay have to say goes on its way.
void Scale::pump(int number) {
  ScaleHost& self = host(number);
  if (self.dead) return;
  for (size_t i = 0; i < self.locals.size(); ++i) {
    Participant& local = *rank(self.locals[i]).participant;
    for (Frame frame = local.take_frame(); !frame.empty(); frame = local.take_frame()) {
      if (!self.relay->from_below(i, frame).ok()) violated("a relay refused the frame of a rank of its host");
    }
  }
  Frame up = self.relay->take_up();
  if (up.empty()) return;
  if (number == 0) {
    // Rank 0's own relay hands over in memory.
    if (const core::Status status = arbiter_->receive_relayed(up); !status.ok()) violated(status.sentence());
    self.relay->acknowledged();
    plan_due_ = true;
    return pump(number);
  }
  self.up_bytes += up.size();
  self.up.push_back(std::move(up));
  links_.emplace_back(number, true);
}

void Scale::deliver_up(int number) {
  ScaleHost& self = host(number);
  const int parent = ControlTree::parent(number);
  ScaleHost& above = host(parent);
  const Frame frame = std::move(self.up.front());
  self.up.pop_front();
  if (above.dead || self.dead) return;
  const auto position = std::find(above.below.begin(), above.below.end(), number) - above.below.begin();
  const core::Status status = above.relay->from_below(above.locals.size() + static_cast<size_t>(position), frame);
  if (!status.ok()) violated(status.sentence());
  if (parent == 0) {
    ++root_messages_;
    root_bytes_ += frame.size();
  }
  self.relay->acknowledged();  // as soon as it is taken over
  pump(number);
  pump(parent);
}

void Scale::deliver_down(int number) {
  ScaleHost& self = host(number);
  const Frame frame = std::move(self.down.front());
  self.down.pop_front();
  if (self.dead) return;
  if (const core::Status status = self.relay->from_above(frame); !status.ok()) violated(status.sentence());
  for (size_t i = 0; i < self.locals.size(); ++i) {
    for (Frame own = self.relay->take_down(i); !own.empty(); own = self.relay->take_down(i)) {
      if (const core::Status status = rank(self.locals[i]).participant->receive(own); !status.ok()) {
        violated(status.sentence());
      }
      collect(self.locals[i]);
    }
  }
  for (size_t i = 0; i < self.below.size(); ++i) {
    for (Frame own = self.relay->take_down(self.locals.size() + i); !own.empty();
         own = self.relay->take_down(self.locals.size() + i)) {
      if (number == 0) {
        ++root_messages_;
        root_bytes_ += own.size();
      }
      host(self.below[i]).down.push_back(std::move(own));
      links_.emplace_back(self.below[i], false);
    }
  }
  pump(number);
}

void Scale::plan() {
  plan_due_ = false;
  arbiter_->plan();
  for (Frame frame = arbiter_->take_addressed(); !frame.empty(); frame = arbiter_->take_addressed()) {
    host(0).down.push_back(std::move(frame));
    deliver_down(0);
  }
}

bool Scale::move_one() {
  if (links_.empty()) {
    if (!plan_due_) return false;
    plan();
    return true;
  }
  const size_t pick = random_.below(links_.size());
  const auto [number, upward] = std::exchange(links_[pick], links_.back());
  links_.pop_back();
  if (!upward) {
    deliver_down(number);
  } else if (ControlTree::parent(number) != 0) {
    deliver_up(number);
  } else {
    // A turn of rank 0 takes all that lies there, then acknowledges it: a round.
    std::vector<int> round = {number};
    std::erase_if(links_, [&round](const auto& link) {
      const bool taken = link.second && ControlTree::parent(link.first) == 0;
      if (taken) round.push_back(link.first);
      return taken;
    });
    for (const int child : round) deliver_up(child);
    report_.rank0_messages_per_round = std::max(report_.rank0_messages_per_round, round.size());
  }
  if (plan_due_ && random_.once_in(4)) plan();
  return true;
}

void Scale::move_some(size_t messages) {
  for (size_t i = 0; i < messages && move_one(); ++i) {
  }
}

void Scale::settle() {
  while (move_one()) {
  }
}

/// A backward pass: every rank proposes the tensors in one order, some of them earlier than others.
void Scale::submit_all(const std::vector<int>& who) {
  std::vector<int> order = who;
  for (int from = job_.tensors; from > 0;) {
    const int to = std::max(0, from - 1 - static_cast<int>(random_.below(60)));
    random_.shuffle(order);
    for (const int number : order) {
      for (int tensor = from - 1; tensor >= to; --tensor) submit(number, tensor, 100 + tensor);
      pump(host_of_[static_cast<size_t>(number)]);
      if (random_.once_in(8)) move_some(4);
    }
    from = to;
  }
}

ScaleReport simulate_scale(const ScaleJob& job) { return Scale(job).run(); }

}  // namespace rueda::sim
