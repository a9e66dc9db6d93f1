// Connections beside the first one to a peer, which batches use that ask for several sockets. What every channel
// promises is asked of them in channel_suite_test.cc.
#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <set>

#include "runtime/net/lane_loop.h"
#include "runtime/net/tcp_channel.h"
#include "tests/support/channel_kinds.h"
#include "tests/support/deadlines.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;

namespace {

/// A rank's own set of channels over an epoch that the test may change between batches.
struct OwnSet {
  OwnSet(const TcpRanks& ranks, int rank, const Abort& abort)
      : epoch(ranks.epoch(rank)), set(std::make_shared<LaneLoop>(), 0, epoch, paths, abort) {}
  TransportEpoch epoch;
  PathWatch paths;
  TcpChannelSet set;
};

/// A port of this machine at which nobody listens: the listener has gone.
uint16_t closed_port() {
  const auto gone = TcpTransport::listen({"127.0.0.1"});
  return gone.value()->port();
}

/// Which channel batches of so many sockets get, one after the other.
std::vector<Channel*> channels_of(ChannelSet& set, int rank, int other, const std::vector<int>& batches) {
  std::vector<Channel*> found;
  for (const int sockets : batches) {
    set.use_sockets(sockets);
    if (!exchange_all(set, rank, 2, 300'000).ok()) return {};
    found.push_back(set.to(other, late()).value());
  }
  return found;
}

}  // namespace

TEST_CASE("batches of several sockets have connections of their own, from a peer's second batch on") {
  TcpRanks ranks(2);
  const Abort abort;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          const auto set = ranks.transport(rank).channel_set(0, abort);
          Channel* const first = channels_of(*set, rank, 1 - rank, {0}).front();
          const std::vector<Channel*> next = channels_of(*set, rank, 1 - rank, {4, 2, 0, 2, 0});
          if (next.size() != 5) return {Code::kMismatch, "a batch failed"};
          const bool sound =
              next[0] != first && next[1] == next[0] && next[2] == first && next[3] == next[0] && next[4] == first;
          return sound ? Status() : Status(Code::kMismatch, "a batch got another channel");
        }) == "");
}

TEST_CASE("the first batch of a peer uses one connection, whatever it asks for") {
  TcpRanks ranks(2);
  const Abort abort;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          const auto set = ranks.transport(rank).channel_set(0, abort);
          set->use_sockets(4);
          const auto first = set->to(1 - rank, late());
          set->use_sockets(0);
          const bool same = first.ok() && first.value() == set->to(1 - rank, late()).value();
          return same ? Status() : Status(Code::kMismatch, "the first batch waited for further connections");
        }) == "");
}

TEST_CASE("ranks of one host use one connection, and so do all whose number of sockets is set") {
  const bool one_host = GENERATE(true, false);
  TcpRanks::Options options;
  options.one_host = one_host;
  options.sockets_per_peer = one_host ? 1 : 3;
  TcpRanks ranks(2, options);
  const Abort abort;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          const auto set = ranks.transport(rank).channel_set(0, abort);
          const std::vector<Channel*> got = channels_of(*set, rank, 1 - rank, {0, 4, 2});
          return std::set<Channel*>(got.begin(), got.end()).size() == 1 ? Status() : Status(Code::kMismatch, "several");
        }) == "");
}

TEST_CASE("if further connections are refused, the batch and those after it run over the first one") {
  TcpRanks ranks(2);
  const Abort abort;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          OwnSet dialler(ranks, 1, abort);
          const auto listener = ranks.transport(0).channel_set(0, abort);
          ChannelSet& set = rank == 1 ? dialler.set : *listener;
          Channel* const first = channels_of(set, rank, 1 - rank, {0}).front();
          dialler.epoch.ranks[0].port = closed_port();
          const std::vector<Channel*> next = channels_of(set, rank, 1 - rank, {4, 2, 0});
          return next == std::vector<Channel*>(3, first) ? Status() : Status(Code::kMismatch, "not over the first one");
        }) == "");
}

TEST_CASE("a peer that tells of more connections than there may be is lost") {
  TcpRanks ranks(2);
  const Abort abort;
  const std::byte many{TcpChannelSet::kFurtherSockets + 1};
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          const auto set = ranks.transport(rank).channel_set(0, abort);
          const auto first = set->to(1 - rank, late());
          if (!first.ok()) return first.status();
          if (rank == 1) {
            first.value()->send(std::span(&many, 1));
            return set->until([&] { return first.value()->sent() == 1; }, late());
          }
          set->use_sockets(2);
          const Status lost = set->to(1, late()).status();
          const bool told =
              lost.sentence().find("tells of 5 further connections, and the most are 4") != std::string::npos;
          const bool named = lost.code() == Code::kPeerLost && lost.rank() == 1;
          return told && named ? Status() : Status(Code::kMismatch, "another end: " + lost.sentence());
        }) == "");
}

TEST_CASE("an abort ends the wait for a peer's further connections with its reason") {
  TcpRanks ranks(2);
  Abort abort;
  std::promise<void> exchanged;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          const auto set = ranks.transport(rank).channel_set(0, abort);
          Status together = exchange_all(*set, rank, 2, 1000);
          if (rank == 0) exchanged.set_value();
          if (!together.ok()) return together;
          if (rank == 1) {
            exchanged.get_future().wait();
            abort.raise(Status(Code::kPeerLost, "rank 9 died", 9));
            ranks.transport(0).wake_all();
            return {};
          }
          set->use_sockets(2);
          const Status ended = set->to(1, late()).status();
          return ended.rank() == 9 ? Status() : Status(Code::kMismatch, "another reason: " + ended.sentence());
        }) == "");
}
