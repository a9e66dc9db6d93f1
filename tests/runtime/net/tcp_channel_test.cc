#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "tests/support/tcp_ranks.h"

using namespace rueda::core;
using namespace std::chrono_literals;

namespace {

Deadline in_a_minute() { return Deadline::after(60s); }

std::vector<std::byte> pattern(size_t bytes, int from, int to) {
  std::vector<std::byte> result(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    result[i] = static_cast<std::byte>((i * 7 + i / 253 + static_cast<size_t>(from * 16 + to)) & 0xff);
  }
  return result;
}

/// Every rank sends `bytes` to every other and receives as many; the first failure of any.
Status exchange_all(ChannelSet& set, int rank, int size, size_t bytes) {
  std::vector<std::vector<std::byte>> out(static_cast<size_t>(size)), in(out);
  std::vector<Channel*> channels(static_cast<size_t>(size), nullptr);
  std::vector<uint64_t> sent(out.size()), received(out.size());  // totals at which all has moved
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const auto at = static_cast<size_t>(peer);
    auto channel = set.to(peer, in_a_minute());
    if (!channel.ok()) return channel.status();
    channels[at] = channel.value();
    out[at] = pattern(bytes, rank, peer);
    in[at].resize(bytes);
    sent[at] = channels[at]->sent() + bytes;
    received[at] = channels[at]->received() + bytes;
    channels[at]->send(out[at]);
    channels[at]->receive(in[at]);
  }
  Status moved = set.until(
      [&] {
        for (size_t at = 0; at < channels.size(); ++at) {
          const Channel* channel = channels[at];
          if (channel != nullptr && (channel->sent() < sent[at] || channel->received() < received[at])) return false;
        }
        return true;
      },
      in_a_minute());
  if (!moved.ok()) return moved;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank && in[static_cast<size_t>(peer)] != pattern(bytes, peer, rank)) {
      return Status(Code::kMismatch, "rank " + std::to_string(rank) + " got wrong bytes of " + std::to_string(peer));
    }
  }
  return {};
}

/// Runs `body(rank)` on one thread per rank.
std::vector<Status> on_all(int size, const std::function<Status(int)>& body) {
  std::vector<std::future<Status>> results;
  for (int rank = 0; rank < size; ++rank) results.push_back(std::async(std::launch::async, body, rank));
  std::vector<Status> statuses;
  for (auto& result : results) statuses.push_back(result.get());
  return statuses;
}

void expect_exchange(TcpRanks& ranks, size_t bytes) {
  const Abort abort;
  for (const Status& status : on_all(ranks.size(), [&](int rank) {
         return exchange_all(*ranks.transport(rank).channel_set(0, abort), rank, ranks.size(), bytes);
       })) {
    CHECK(status.sentence() == "");
  }
}

}  // namespace

TEST_CASE("every pair of ranks exchanges large messages both ways at once") {
  const int sockets = GENERATE(1, 2, 5);
  TcpRanks::Options options;
  options.sockets_per_peer = sockets;
  TcpRanks ranks(4, options);
  expect_exchange(ranks, 2'000'003);
}

TEST_CASE("data travels over TLS when it is asked for, and plain without a key") {
  const auto options = GENERATE(TcpRanks::Options{true, true, 1, 3}, TcpRanks::Options{true, true, 3, 3},
                                TcpRanks::Options{false, false, 1, 4});
  TcpRanks ranks(3, options);
  expect_exchange(ranks, 300'001);
}

TEST_CASE("lanes of one rank have connections of their own") {
  TcpRanks ranks(2);
  const Abort abort;
  const auto statuses = on_all(4, [&](int which) {
    const int rank = which % 2, lane = which / 2;
    return exchange_all(*ranks.transport(rank).channel_set(lane, abort), rank, 2, 100'000);
  });
  for (const Status& status : statuses) CHECK(status.sentence() == "");
}

TEST_CASE("a peer that closes in mid-stream is named with rank, host, pid and address") {
  TcpRanks ranks(2);
  const Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  auto peer = std::async(std::launch::async, [&] {
    auto gone = ranks.transport(1).channel_set(0, abort);
    auto channel = gone->to(0, in_a_minute());
    if (!channel.ok()) return channel.status();
    const std::vector<std::byte> half(1000);
    channel.value()->send(half);
    return gone->until([&] { return channel.value()->sent() == half.size(); }, in_a_minute());
  });
  auto channel = set->to(1, in_a_minute());
  REQUIRE(channel.ok());
  REQUIRE(peer.get().ok());
  std::vector<std::byte> whole(2000);
  channel.value()->receive(whole);
  const Status lost = set->until([&] { return channel.value()->received() == whole.size(); }, in_a_minute());
  CHECK(channel.value()->received() == 1000);  // what was sent before the close is delivered
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == 1);
  CHECK(lost.sentence() == "rank 0 lost its data connection to rank 1 (host host1, pid 1001) at 127.0.0.1:" +
                               std::to_string(ranks.epoch(0).peer(1).port) + ": the peer closed the connection");
}

TEST_CASE("a peer that closes after its last message disturbs nobody") {
  TcpRanks::Options options;
  options.sockets_per_peer = GENERATE(1, 3);
  TcpRanks ranks(3, options);
  const Abort abort;
  std::promise<void> closed;
  std::vector<Status> statuses = on_all(3, [&](int rank) {
    auto set = ranks.transport(rank).channel_set(0, abort);
    Status status = exchange_all(*set, rank, 3, 1000);
    if (rank == 2) {
      set.reset();
      closed.set_value();
      return status;
    }
    if (rank == 0) closed.get_future().wait();
    if (!status.ok()) return status;
    return exchange_all(*set, rank, 2, 1000);
  });
  for (const Status& status : statuses) CHECK(status.sentence() == "");
}

TEST_CASE("an abort ends waits for data and for a peer's call with its reason") {
  TcpRanks ranks(3);
  Abort abort;
  std::promise<void> started;
  auto statuses = std::async(std::launch::async, [&] {
    return on_all(3, [&](int rank) {
      auto set = ranks.transport(rank).channel_set(0, abort);
      if (rank == 2) {
        started.set_value();
        return set->until([] { return false; }, Deadline::never());
      }
      auto channel = set->to(1 - rank, in_a_minute());
      if (!channel.ok()) return channel.status();
      if (rank == 0) return set->to(2, Deadline::never()).status();
      std::byte byte;
      channel.value()->receive(std::span(&byte, 1));
      return set->until([&] { return channel.value()->received() == 1; }, Deadline::never());
    });
  });
  started.get_future().wait();
  REQUIRE(abort.raise(Status(Code::kPeerLost, "rank 9 died", 9)));
  for (int rank = 0; rank < 3; ++rank) ranks.transport(rank).wake_all();
  const auto results = statuses.get();
  for (const Status& status : results) CHECK(status.sentence() == "rank 9 died");
}

TEST_CASE("a peer that closes because the epoch ended gives the epoch's reason, not its own") {
  const int raised_in = GENERATE(1, 2, 3, 4);  // which of the looks between the close and the news of it
  TcpRanks ranks(2);
  Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  auto leaving = ranks.transport(1).channel_set(0, abort);
  auto dialled = std::async(std::launch::async, [&] { return leaving->to(0, in_a_minute()).status(); });
  const auto channel = set->to(1, in_a_minute());
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
      in_a_minute());
  CHECK((status.rank() == 9) == abort.raised());
  if (raised_in == 1) CHECK(abort.raised());
}

TEST_CASE("a deadline ends waits for data and for a peer's call") {
  TcpRanks ranks(2);
  const Abort abort;
  auto set = ranks.transport(0).channel_set(0, abort);
  const auto nobody = set->to(1, Deadline::after(1ms));
  CHECK(nobody.status().code() == Code::kTimeout);
  CHECK(nobody.status().rank() == 1);
  CHECK(nobody.status().sentence() == "rank 1 (host host1, pid 1001) opened no data connection to rank 0 for lane 0");
  CHECK(set->until([] { return false; }, Deadline::after(1ms)).code() == Code::kTimeout);
}

TEST_CASE("dialling a rank whose listener is gone fails as peer lost with the address tried") {
  TcpRanks ranks(2);
  const Abort abort;
  ranks.stop(0);
  auto set = ranks.transport(1).channel_set(0, abort);
  const Status lost = set->to(0, in_a_minute()).status();
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == 0);
  CHECK(lost.sentence() == "rank 1 cannot reach rank 0 (host host0, pid 1000) (127.0.0.1:" +
                               std::to_string(ranks.epoch(1).peer(0).port) + ": Connection refused)");
}
