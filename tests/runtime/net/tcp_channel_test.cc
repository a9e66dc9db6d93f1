// How a rank's data connections come to be, and what their sentences say. What every channel promises is in
// channel_suite_test.cc.
#include <catch2/catch.hpp>
#include <chrono>
#include <future>

#include "tests/support/channel_kinds.h"
#include "tests/support/deadlines.h"
#include "tests/support/tcp_ranks.h"

using namespace rueda::core;
using namespace std::chrono_literals;

TEST_CASE("lanes of one rank have connections of their own") {
  TcpRanks ranks(2);
  const Abort abort;
  CHECK(failures_on_all(4, [&](int which) {
          const int rank = which % 2, lane = which / 2;
          return exchange_all(*ranks.transport(rank).channel_set(lane, abort), rank, 2, 100'000);
        }) == "");
}

TEST_CASE("an abort ends the wait for a peer's call with its reason") {
  TcpRanks ranks(2);
  Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  auto called = std::async(std::launch::async, [&] { return set->to(1, Deadline::never()).status(); });
  REQUIRE(abort.raise(Status(Code::kPeerLost, "rank 9 died", 9)));
  ranks.transport(0).wake_all();
  CHECK(called.get().sentence() == "rank 9 died");
}

TEST_CASE("a peer that closes because the epoch ended gives the epoch's reason, not its own") {
  const int raised_in = GENERATE(1, 2, 3, 4);  // which of the looks between the close and the news of it
  TcpRanks ranks(2);
  Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  auto leaving = ranks.transport(1).channel_set(0, abort);
  auto dialled = std::async(std::launch::async, [&] { return leaving->to(0, late()).status(); });
  const auto channel = set->to(1, late());
  REQUIRE(channel.ok());
  REQUIRE(dialled.get().ok());
  std::byte byte;
  channel.value()->receive(std::span(&byte, 1));
  int looks = 0;
  const Status status = set->until(
      [&] {
        leaving.reset();
        if (++looks == raised_in) abort.raise(Status(Code::kPeerLost, "rank 9 died", 9));
        return false;
      },
      late());
  CHECK((status.rank() == 9) == abort.raised());
  if (raised_in == 1) CHECK(abort.raised());
}

TEST_CASE("a deadline ends the wait for a peer's call and names the peer") {
  TcpRanks ranks(2);
  const Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  const auto nobody = set->to(1, Deadline::after(1ms));
  CHECK(nobody.status().code() == Code::kTimeout);
  CHECK(nobody.status().rank() == 1);
  CHECK(nobody.status().sentence() == "rank 1 (host host1, pid 1001) opened no data connection to rank 0 for lane 0");
}

TEST_CASE("dialling a rank whose listener is gone fails as peer lost with the address tried") {
  TcpRanks ranks(2);
  const Abort abort;
  ranks.stop(0);
  auto set = ranks.transport(1).channel_set(0, abort);
  const Status lost = set->to(0, late()).status();
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == 0);
  CHECK(lost.sentence() == "rank 1 cannot reach rank 0 (host host0, pid 1000) (127.0.0.1:" +
                               std::to_string(ranks.epoch(1).peer(0).port) + ": Connection refused)");
}
