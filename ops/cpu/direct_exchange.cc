#include "ops/cpu/direct_exchange.h"

#include "ops/cpu/channel_team.h"
#include "ops/exchange.h"

namespace rueda::core {

namespace {

/// Where bytes go that have no place.
constexpr size_t kDropBytes = 64 << 10;

class DirectExchange {
 public:
  DirectExchange(const Call& call, Mesh& mesh, Deadline deadline)
      : exchange_(call),
        team_(call, mesh, deadline),
        own_counts_(static_cast<size_t>(team_.size())),
        counts_(static_cast<size_t>(team_.size())),
        marks_(static_cast<size_t>(team_.size())),
        dropped_(kDropBytes) {}

  Status run() {
    RUEDA_RETURN_IF_ERROR(connect());
    // Beginning behind the own place, so that the members do not all send to the first one at once.
    for (int step = 1; step < team_.size(); ++step) {
      if (sends_to(team_.neighbour(step))) send(team_.neighbour(step));
      if (receives_from(team_.neighbour(-step))) expect_counts(team_.neighbour(-step));
    }
    RUEDA_RETURN_IF_ERROR(team_.until([&] { return counts_are_here(); }));
    for (int from = 0; from < team_.size(); ++from) {
      if (receives_from(from)) RUEDA_RETURN_IF_ERROR(exchange_.learn(from, counts_[static_cast<size_t>(from)]));
    }
    exchange_.place();
    for (int step = 1; step < team_.size(); ++step) {
      if (receives_from(team_.neighbour(-step))) receive(team_.neighbour(-step));
    }
    return team_.until([&] { return idle(); });
  }

 private:
  bool sends_to(int member) const {
    return member != exchange_.index() && exchange_.sends(exchange_.index()) && exchange_.receives(member);
  }
  bool receives_from(int member) const {
    return member != exchange_.index() && exchange_.sends(member) && exchange_.receives(exchange_.index());
  }

  Status connect() {
    for (int member = 0; member < team_.size(); ++member) {
      if (sends_to(member) || receives_from(member)) RUEDA_RETURN_IF_ERROR(team_.connect(member));
    }
    return {};
  }

  void send(int to) {
    std::vector<int64_t>& counts = own_counts_[static_cast<size_t>(to)];
    counts = exchange_.counts_to(to);
    team_.peer(to).send(std::as_bytes(std::span(counts)));
    for (const Exchange::Stretch& stretch : exchange_.outgoing(to)) team_.peer(to).send({stretch.data, stretch.bytes});
  }

  void expect_counts(int from) {
    std::vector<int64_t>& counts = counts_[static_cast<size_t>(from)];
    counts.resize(exchange_.tensors());
    marks_[static_cast<size_t>(from)] = team_.peer(from).receive(std::as_writable_bytes(std::span(counts)));
  }

  bool counts_are_here() {
    for (int from = 0; from < team_.size(); ++from) {
      if (receives_from(from) && !team_.peer(from).received(marks_[static_cast<size_t>(from)])) return false;
    }
    return true;
  }

  void receive(int from) {
    for (const Exchange::Stretch& stretch : exchange_.incoming(from)) {
      if (stretch.data != nullptr) {
        team_.peer(from).receive({stretch.data, stretch.bytes});
        continue;
      }
      for (size_t left = stretch.bytes; left > 0;) {
        const size_t bytes = std::min(left, kDropBytes);
        team_.peer(from).receive(dropped_.part(0, bytes));
        left -= bytes;
      }
    }
  }

  bool idle() {
    for (int member = 0; member < team_.size(); ++member) {
      if ((sends_to(member) || receives_from(member)) && !team_.peer(member).idle()) return false;
    }
    return true;
  }

  Exchange exchange_;
  ChannelTeam team_;
  std::vector<std::vector<int64_t>> own_counts_;  // by receiver
  std::vector<std::vector<int64_t>> counts_;      // by sender
  std::vector<uint64_t> marks_;                   // by sender: its counts are here
  Scratch dropped_;
};

}  // namespace

bool direct_exchange_fits(const BatchShape& shape) { return shape.device < 0 && shape.ranks > 1; }

AlgorithmChoice direct_exchange_plan(const BatchShape&) {
  AlgorithmChoice choice;
  choice.stamps = 3;
  return choice;
}

Status direct_exchange(const Call& call, Mesh& mesh, Deadline deadline) {
  return DirectExchange(call, mesh, deadline).run();
}

}  // namespace rueda::core
