#include "runtime/agreement/relay.h"

#include <catch2/catch.hpp>
#include <memory>
#include <numeric>

#include "runtime/agreement/agreement.h"
#include "runtime/agreement/set_members.h"
#include "runtime/rendezvous/control_tree.h"
#include "tests/runtime/agreement/agreement_world.h"
#include "tests/sim/random.h"

using namespace rueda::core;
using rueda::core::test::World;

namespace {

/// Rank 0's relay over four ranks behind two relays: 0 and 1 are rank 0's own host, 2 and 3 another.
class TwoHosts {
 public:
  TwoHosts() : config_(World::config_of(4)) {
    config_.relayed = true;
    config_.sets.push_back({1, {1, 3}, {2}, true});
    arbiter = std::make_unique<Arbiter>(config_);
    using Kind = RelayConfig::Child::Kind;
    top = std::make_unique<Relay>(
        RelayConfig{7, 4, {{Kind::kRank, {0}}, {Kind::kRank, {1}}, {Kind::kRelay, {2, 3}}}, config_.sets});
    leaf = std::make_unique<Relay>(RelayConfig{7, 4, {{Kind::kRank, {2}}, {Kind::kRank, {3}}}, config_.sets});
    for (config_.rank = 0; config_.rank < 4; ++config_.rank) {
      participants.push_back(std::make_unique<Participant>(config_));
    }
    events.resize(4);
  }

  uint64_t submit(int rank, Request request) {
    request.ticket = static_cast<uint64_t>(rank) * 1000 + ++tickets_;
    at(rank).submit({&request, 1});
    collect(rank);
    return request.ticket;
  }
  void submit_all(const Request& request) {
    for (int rank = 0; rank < 4; ++rank) submit(rank, request);
  }
  Participant& at(int rank) { return *participants[static_cast<size_t>(rank)]; }

  /// What ranks have said is with their relays.
  void to_relays() {
    for (int rank = 0; rank < 4; ++rank) {
      Relay& relay = rank < 2 ? *top : *leaf;
      for (auto frame = at(rank).take_frame(); !frame.empty(); frame = at(rank).take_frame()) {
        take(relay.from_below(static_cast<size_t>(rank % 2), frame));
      }
    }
  }
  /// One frame from the other host, if there is one; its bytes.
  size_t cross() {
    const auto frame = leaf->take_up();
    if (frame.empty()) return 0;
    crossed.push_back(frame);
    take(top->from_below(2, frame));
    leaf->acknowledged();
    return frame.size();
  }
  void to_rank_zero() {
    for (auto frame = top->take_up(); !frame.empty(); frame = top->take_up()) {
      take(arbiter->receive_relayed(frame));
      top->acknowledged();
    }
    arbiter->plan();
  }
  void down() {
    for (auto frame = arbiter->take_addressed(); !frame.empty(); frame = arbiter->take_addressed()) {
      take(top->from_above(frame));
    }
    for (auto frame = top->take_down(2); !frame.empty(); frame = top->take_down(2)) take(leaf->from_above(frame));
    for (int rank = 0; rank < 4; ++rank) {
      Relay& relay = rank < 2 ? *top : *leaf;
      const auto child = static_cast<size_t>(rank % 2);
      for (auto frame = relay.take_down(child); !frame.empty(); frame = relay.take_down(child)) {
        take(at(rank).receive(frame));
        collect(rank);
      }
    }
  }
  /// Until nothing moves. Rank 0 starts what it gets. The bytes that came from the other host.
  size_t exchange() {
    size_t bytes = 0;
    for (size_t round = 0; round < 12; ++round) {
      to_relays();
      while (const size_t crossing = cross()) bytes += crossing;
      to_rank_zero();
      down();
    }
    return bytes;
  }
  void collect(int rank) {
    for (Event& event : at(rank).take_events()) {
      if (const auto* batch = std::get_if<BatchEvent>(&event)) {
        const auto& members = batch->set == 0 ? std::vector<int>{0, 1, 2, 3} : config_.sets[1].ranks;
        if (members.front() == rank) at(rank).started(batch->set, batch->number);
      }
      events[static_cast<size_t>(rank)].push_back(std::move(event));
    }
  }
  template <typename Kind>
  std::vector<Kind> all(int rank) {
    std::vector<Kind> found;
    for (const Event& event : events[static_cast<size_t>(rank)]) {
      if (const auto* one = std::get_if<Kind>(&event)) found.push_back(*one);
    }
    return found;
  }

  std::unique_ptr<Arbiter> arbiter;
  std::unique_ptr<Relay> top;
  std::unique_ptr<Relay> leaf;
  std::vector<std::unique_ptr<Participant>> participants;
  std::vector<std::vector<Event>> events;
  std::vector<std::vector<std::byte>> crossed;
  Status broken;

 private:
  void take(const Status& status) {
    if (broken.ok()) broken = status;
  }
  AgreementConfig config_;
  uint64_t tickets_ = 0;
};

}  // namespace

TEST_CASE("what all ranks of a host propose crosses to the next host as one") {
  TwoHosts job;
  for (int i = 0; i < 3; ++i) job.submit_all(World::tensor("w" + std::to_string(i)));
  job.exchange();
  job.exchange();
  for (int i = 0; i < 3; ++i) job.submit_all(World::tensor("w" + std::to_string(i)));
  CHECK(job.exchange() <= 6);
  for (int rank = 0; rank < 4; ++rank) {
    size_t operations = 0;
    for (const BatchEvent& batch : job.all<BatchEvent>(rank)) operations += batch.tickets.size();
    CHECK(operations == 6);
  }
  CHECK(job.broken.ok());
}

TEST_CASE("a proposal is held for the others of the host, until it is released") {
  TwoHosts job;
  job.submit_all(World::tensor("w"));
  job.exchange();
  job.submit(2, World::tensor("w"));
  CHECK(job.exchange() == 0);
  CHECK(job.leaf->held() == 1);
  job.leaf->release();
  CHECK(job.leaf->held() == 0);
  CHECK(job.exchange() > 0);
  for (const int rank : {0, 1, 3}) job.submit(rank, World::tensor("w"));
  job.exchange();
  CHECK(job.all<BatchEvent>(3).size() == 2);
  CHECK(job.leaf->held() == 0);
  job.submit_all(World::tensor("w"));
  job.exchange();
  CHECK(job.all<BatchEvent>(3).size() == 3);
  CHECK(job.broken.ok());
}

TEST_CASE("at most one frame is on its way upward, and what is ready meanwhile leaves in the next") {
  TwoHosts job;
  job.submit(2, World::tensor("a"));
  job.to_relays();
  const auto first = job.leaf->take_up();
  CHECK_FALSE(first.empty());
  job.submit(2, World::tensor("b"));
  job.submit(3, World::tensor("b"));
  job.to_relays();
  CHECK(job.leaf->take_up().empty());
  CHECK(job.top->from_below(2, first).ok());
  job.leaf->acknowledged();
  CHECK_FALSE(job.leaf->take_up().empty());
}

TEST_CASE("mismatches, groups, other metadata, sets, goodbyes and joins are as without relays") {
  TwoHosts job;
  for (int step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 4; ++rank) job.submit(rank, World::tensor("w", {step == 1 && rank == 3 ? 9 : 4}));
    job.exchange();
  }
  for (int rank = 0; rank < 4; ++rank) {
    REQUIRE(job.all<ErrorEvent>(rank).size() == 1);
    CHECK(job.all<ErrorEvent>(rank).front().status.sentence() ==
          "allreduce \"w\": shape differs: ranks 0-2 (host a) sent [4], rank 3 (host b) sent [9]");
    CHECK(job.all<BatchEvent>(rank).size() == 2);
  }
  Request in_set = World::tensor("s");
  in_set.set = 1;
  for (int step = 0; step < 2; ++step) {
    for (const int rank : {1, 3}) job.submit(rank, in_set);
    job.exchange();
  }
  CHECK(job.all<BatchEvent>(3).size() == 4);
  CHECK(job.all<BatchEvent>(2).size() == 2);
  for (const int rank : {2, 3}) job.at(rank).add_set(static_cast<SetId>(70 + rank), {2, 3}, "");
  for (const int rank : {2, 3}) {
    in_set.set = static_cast<SetId>(70 + rank);
    job.submit(rank, in_set);
  }
  job.exchange();
  CHECK(job.all<SetEvent>(2).size() == 1);
  CHECK(job.all<BatchEvent>(2).size() == 3);
  Request join;
  join.metadata.kind = OpKind::kJoin;
  job.submit(3, join);
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 3; ++rank) job.submit(rank, World::tensor("w"));
    job.exchange();
  }
  CHECK(job.all<BatchEvent>(0).size() == 4);
  for (int rank = 0; rank < 3; ++rank) job.submit(rank, join);
  job.exchange();
  for (int rank = 0; rank < 4; ++rank) CHECK(job.all<JoinEvent>(rank).size() == 1);
  job.submit_all(World::tensor("w"));
  job.exchange();
  CHECK(job.all<BatchEvent>(0).size() == 5);
  CHECK(job.all<ErrorEvent>(3).size() == 1);
  job.submit(2, World::tensor("w"));
  job.at(3).goodbye();
  job.exchange();
  CHECK(job.all<ErrorEvent>(2).size() == 2);
  CHECK(job.all<GoodbyeEvent>(0).size() == 1);
  CHECK(job.broken.ok());
}

TEST_CASE("random orders of steps, with other metadata, groups and releases between, reach every rank alike") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    rueda::sim::Random random(seed);
    TwoHosts job;
    for (int step = 0; step < 12; ++step) {
      const bool other = random.once_in(3);
      std::vector<int> order = {0, 1, 2, 3};
      random.shuffle(order);
      for (const int rank : order) {
        std::vector<int> names = {0, 1, 2, 3, 4};
        random.shuffle(names);
        for (const int name : names) {
          job.submit(rank, World::tensor("t" + std::to_string(name), {other && name == 2 ? 5 : 4}));
          if (random.once_in(4)) job.to_relays();
          if (random.once_in(6)) job.leaf->release();
          if (random.once_in(6)) job.cross();
          if (random.once_in(8)) job.to_rank_zero();
          if (random.once_in(8)) job.down();
        }
      }
      job.exchange();
      INFO("seed " << seed << " step " << step);
      REQUIRE(job.broken.ok());
      CHECK(job.leaf->held() == 0);
      for (int rank = 0; rank < 4; ++rank) {
        size_t operations = 0;
        for (const BatchEvent& batch : job.all<BatchEvent>(rank)) operations += batch.tickets.size();
        REQUIRE(operations == static_cast<size_t>(5 * (step + 1)));
      }
    }
  }
}

TEST_CASE("no prefix and no flipped bit of a relayed or addressed frame does harm") {
  TwoHosts job;
  for (int step = 0; step < 3; ++step) {
    for (int rank = 0; rank < 4; ++rank) job.submit(rank, World::tensor("w", {step + 1}));
    job.submit_all(World::tensor(""));
    job.exchange();
  }
  REQUIRE(job.broken.ok());
  for (const auto& frame : job.crossed) {
    for (size_t bit = 0; bit < frame.size() * 8; ++bit) {
      TwoHosts fresh;
      auto flipped = frame;
      flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      static_cast<void>(fresh.top->from_below(2, flipped));
      static_cast<void>(fresh.arbiter->receive_relayed(flipped));
      static_cast<void>(fresh.leaf->from_above(flipped));
    }
    for (size_t length = 0; length < frame.size(); ++length) {
      TwoHosts fresh;
      const std::vector<std::byte> prefix(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(length));
      static_cast<void>(fresh.top->from_below(2, prefix));
      static_cast<void>(fresh.arbiter->receive_relayed(prefix));
      static_cast<void>(fresh.leaf->from_above(prefix));
    }
  }
}

TEST_CASE("a tree of 512 hosts has three levels and nobody more than sixteen connections") {
  std::vector<int> host_of;
  for (int rank = 0; rank < 4096; ++rank) host_of.push_back(rank / 8);
  const ControlTree tree(host_of);
  CHECK(tree.depth() == 3);
  CHECK(tree.children(0).size() == 8);
  CHECK(tree.subtree(0).size() == 4096);
  CHECK(ControlTree::parent(511) == 63);
  for (int rank = 0; rank < 4096; ++rank) CHECK(tree.peers(rank, rank / 8).size() <= 16);
  const ControlTree uneven({0, 0, 0, 1});
  CHECK(uneven.depth() == 1);
  CHECK(uneven.children(1).empty());
  CHECK(uneven.peers(3, 1) == std::vector<int>{0});
  CHECK(ControlTree({0}).depth() == 0);
}

TEST_CASE("what is sent to a rank that receives from any is not held for it, from then on") {
  TwoHosts job;
  Request sent = World::tensor("m");
  sent.metadata.kind = OpKind::kSend;
  sent.metadata.root = 2;
  const auto in_pair = [&sent](int rank) {
    Request request = sent;
    request.set = pair_number(rank, 2, 3);
    return request;
  };
  for (const int rank : {2, 3}) {
    job.at(rank).add_set(pair_number(rank, 2, 3), {2, 3}, pair_name(2, 3));
    job.submit(rank, in_pair(rank));
  }
  job.exchange();
  job.submit(2, in_pair(2));  // by its id
  job.exchange();
  CHECK(job.leaf->held() == 1);
  Request any = sent;
  any.metadata.root = -1;
  job.submit(3, any);
  job.exchange();
  CHECK(job.leaf->held() == 0);
  job.submit(3, any);
  job.exchange();
  job.submit(2, in_pair(2));
  job.exchange();
  CHECK(job.leaf->held() == 0);
  CHECK(job.all<SourceEvent>(3).size() == 2);
  CHECK(job.all<BatchEvent>(3).size() == 2);  // the third waits for a credit, which nobody gives here
  CHECK(job.broken.ok());
}
