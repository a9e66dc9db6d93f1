// All-gather, all-to-all, gather and scatter in one step over channels: every sender sends to every receiver at once.
//
//   channel from a sender to a receiver:   | counts, 8 bytes a tensor | elements of tensor 0 | of tensor 1 | ...
//
//   1  every member queues counts and elements for each receiver, and expects the counts of each sender
//   2  it waits for the counts of all senders: only then does it know how much memory the results need, and where in it
//      each sender's rows belong (the order of ranks)
//   3  it asks for that memory and expects the elements there: no copy, whatever their number
//
// Senders do not wait for step 3 of the receivers: what has no destination yet waits in the stream. 1 latency; no bytes
// but those that have to move, and the counts.
#include "ops/cpu/direct_exchange.h"

#include "ops/cpu/channel_team.h"
#include "ops/exchange.h"

namespace rueda::core {

namespace {

/// Rows that the caller does not want still come through the stream; they are received here, over and over.
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
    // Each member begins with its next neighbour, so that not all send to the first member at once.
    for (int step = 1; step < team_.size(); ++step) {
      if (sends_to(team_.neighbour(step))) send(team_.neighbour(step));
      if (receives_from(team_.neighbour(-step))) expect_counts(team_.neighbour(-step));
    }
    RUEDA_RETURN_IF_ERROR(team_.until([&] { return counts_are_here(); }));
    for (int from = 0; from < team_.size(); ++from) {
      if (receives_from(from)) RUEDA_RETURN_IF_ERROR(exchange_.learn(from, counts_[static_cast<size_t>(from)]));
    }
    exchange_.place();  // the own rows are copied here, while the others' are on their way
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

  /// The stream borrows counts and tensors until it is idle, so the counts live as long as the run.
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

/// No chunks and no slots: stamps only keep this batch apart from the next one.
AlgorithmChoice direct_exchange_plan(const BatchShape&) {
  AlgorithmChoice choice;
  choice.stamps = 3;
  return choice;
}

Status direct_exchange(const Call& call, Mesh& mesh, Deadline deadline) {
  return DirectExchange(call, mesh, deadline).run();
}

}  // namespace rueda::core
