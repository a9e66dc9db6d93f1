// What every channel and every channel set promises, asked of every implementation. Bytes come from a formula over
// their position in the stream and its two ends, so a lost, doubled or misplaced byte shows.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/channel_kinds.h"
#include "tests/support/deadlines.h"

using namespace rueda::core;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

using Bytes = std::vector<std::byte>;

/// Cuts a buffer into pieces of these lengths, again and again until it ends.
template <typename Byte>
std::vector<std::span<Byte>> pieces(std::span<Byte> all, const std::vector<size_t>& lengths) {
  std::vector<std::span<Byte>> result;
  for (size_t i = 0; !all.empty(); ++i) {
    const size_t bytes = std::min(all.size(), lengths[i % lengths.size()]);
    result.push_back(all.first(bytes));
    all = all.subspan(bytes);
  }
  return result;
}

/// Two ranks with the channel between them, connected.
struct ConnectedPair {
  ConnectedPair(const ChannelKind& kind, const Abort& abort) : ranks(kind.make(2)) {
    for (const int rank : {0, 1}) sets[rank] = ranks->set(rank, abort);
    const std::string failures = failures_on_all(2, [&](int rank) {
      auto channel = sets[rank]->to(1 - rank, late());
      if (channel.ok()) channels[rank] = channel.value();
      return channel.status();
    });
    REQUIRE(failures == "");
  }
  Status until(int rank, const std::function<bool()>& ready) { return sets[rank]->until(ready, late()); }

  std::unique_ptr<ChannelRanks> ranks;
  std::unique_ptr<ChannelSet> sets[2];
  Channel* channels[2] = {};
};

}  // namespace

TEST_CASE("bytes arrive in order, however sends and receives cut the stream") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  constexpr size_t kBytes = 1'000'003;
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes out[2] = {stream_bytes(kBytes, 0, 1), stream_bytes(kBytes, 1, 0)};
  Bytes in[2] = {Bytes(kBytes), Bytes(kBytes)};
  // Lengths around those of a stripe's frame (128 KiB), and none that divides another.
  const std::vector<size_t> send_lengths[2] = {{1, 131'071, 7, 131'073}, {300'000, 1, 5}};
  const std::vector<size_t> receive_lengths[2] = {{131'072, 3, 1}, {500'000, 11, 2}};
  CHECK(failures_on_all(2, [&](int rank) {
          Channel& channel = *pair.channels[rank];
          for (const auto piece : pieces(std::span(out[rank]), send_lengths[rank])) channel.send(piece);
          for (const auto piece : pieces(std::span(in[rank]), receive_lengths[rank])) channel.receive(piece);
          return pair.until(rank, [&] { return channel.sent() == kBytes && channel.received() == kBytes; });
        }) == "");
  CHECK(bool(in[0] == out[1]));
  CHECK(bool(in[1] == out[0]));
}

TEST_CASE("what received() has passed is whole in its buffer, before the rest has come") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  constexpr size_t kBytes = 400'000, kStep = 1000;
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes out = stream_bytes(kBytes, 0, 1);
  Bytes in(kBytes);
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          Channel& channel = *pair.channels[rank];
          if (rank == 0) {
            channel.send(out);
            return pair.until(0, [&] { return channel.sent() == kBytes; });
          }
          for (const auto piece : pieces(std::span(in), {kStep})) channel.receive(piece);
          uint64_t checked = 0;
          bool whole = true;
          const Status status = pair.until(1, [&] {
            for (const uint64_t now = channel.received(); checked < now; ++checked)
              whole = whole && in[checked] == out[checked];
            return checked == kBytes;
          });
          return whole ? status : Status(Code::kMismatch, "received() counted bytes that were not there");
        }) == "");
}

TEST_CASE("a send and a receive of nothing are done at once and hold up nothing") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes out = stream_bytes(1, 0, 1);
  Bytes in(1);
  pair.channels[0]->send({});
  pair.channels[1]->receive({});
  CHECK(pair.channels[0]->sent() == 0);
  CHECK(pair.channels[1]->received() == 0);
  pair.channels[0]->send(out);
  pair.channels[0]->send({});
  pair.channels[1]->receive(in);
  CHECK(failures_on_all(2, [&](int rank) {
          const Channel& channel = *pair.channels[rank];
          return pair.until(rank, [&] { return (rank == 0 ? channel.sent() : channel.received()) == 1; });
        }) == "");
  CHECK(in == out);
}

TEST_CASE("every pair of four ranks exchanges large messages both ways at once, twice") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  const Abort abort;
  const auto ranks = kind.make(4);
  CHECK(failures_on_all(4, [&](int rank) {
          const auto set = ranks->set(rank, abort);
          const Status first = exchange_all(*set, rank, 4, 700'001);
          return first.ok() ? exchange_all(*set, rank, 4, 3) : first;
        }) == "");
}

TEST_CASE("a send that nobody receives stays unfinished, does not block, and ends when the peer receives") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  constexpr size_t kBytes = 96 << 20;  // more than the buffers of three loopback connections
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes out(kBytes);
  Bytes in(kBytes, std::byte{1});
  uint64_t sent_before = kBytes;
  std::promise<void> receive_now;
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          Channel& channel = *pair.channels[rank];
          std::byte token{};
          if (rank == 0) {
            channel.send(out);
            channel.receive(std::span(&token, 1));
            const Status status = pair.until(0, [&] { return channel.received() == 1; });
            sent_before = channel.sent();
            receive_now.set_value();
            return status.ok() ? pair.until(0, [&] { return channel.sent() == kBytes; }) : status;
          }
          channel.send(std::span(&token, 1));
          const Status status = pair.until(1, [&] { return channel.sent() == 1; });
          receive_now.get_future().wait();
          channel.receive(in);
          return status.ok() ? pair.until(1, [&] { return channel.received() == kBytes; }) : status;
        }) == "");
  CHECK(sent_before < kBytes);
  CHECK(bool(in == out));
}

TEST_CASE("a peer that leaves after its last message disturbs no other exchange") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  const Abort abort;
  const auto ranks = kind.make(3);
  std::promise<void> left;
  CHECK(failures_on_all(3, [&](int rank) {
          auto set = ranks->set(rank, abort);
          Status status = exchange_all(*set, rank, 3, 1000);
          if (rank == 2) {
            set.reset();
            left.set_value();
            return status;
          }
          if (rank == 0) left.get_future().wait();
          return status.ok() ? exchange_all(*set, rank, 2, 1000) : status;
        }) == "");
}

TEST_CASE("a peer that leaves too early is named, and what it sent before arrives") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  if (!kind.sees_a_close) return;
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes half = stream_bytes(1000, 1, 0);
  Bytes whole(2000);
  // A stream over TLS shakes hands while its set waits, so both ends must run.
  CHECK(failures_on_all(2, [&](int rank) -> Status {
          Channel& channel = *pair.channels[rank];
          if (rank == 1) {
            channel.send(half);
            Status status = pair.until(1, [&] { return channel.sent() == half.size(); });
            pair.sets[1].reset();
            return status;
          }
          channel.receive(whole);
          return pair.until(0, [&] { return channel.received() == half.size(); });
        }) == "");
  const Status lost = pair.until(0, [&] { return pair.channels[0]->received() == whole.size(); });
  CHECK(pair.channels[0]->received() == half.size());
  CHECK(lost.code() == Code::kPeerLost);
  CHECK(lost.rank() == 1);
  CHECK_THAT(lost.sentence(),
             Contains("rank 0 lost its data connection to rank 1 (host host1, pid 1001) at 127.0.0.1:"));
}

TEST_CASE("an abort ends every wait with its reason") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  Abort abort;
  ConnectedPair pair(kind, abort);
  std::byte byte{};
  pair.channels[0]->receive(std::span(&byte, 1));
  auto ended = std::async(std::launch::async, [&] {
    return pair.sets[0]->until([&] { return pair.channels[0]->received() == 1; }, Deadline::never());
  });
  REQUIRE(abort.raise(Status(Code::kPeerLost, "rank 9 died", 9)));
  pair.ranks->wake_all();
  CHECK(ended.get().sentence() == "rank 9 died");
}

TEST_CASE("a deadline ends a wait, and afterwards nothing that was queued is touched") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  const Abort abort;
  ConnectedPair pair(kind, abort);
  const Bytes out(100, std::byte{7});
  Bytes in(100, std::byte{1});
  pair.channels[0]->receive(in);
  CHECK(pair.sets[0]->until([] { return false; }, Deadline::after(1ms)).code() == Code::kTimeout);
  pair.channels[1]->send(out);
  pair.sets[1]->poll();
  pair.sets[0]->poll();
  CHECK(in == Bytes(100, std::byte{1}));
}

TEST_CASE("a wake makes a wait look again") {
  const ChannelKind kind = GENERATE(from_range(channel_kinds()));
  INFO(kind.name);
  const Abort abort;
  const auto ranks = kind.make(2);
  const auto set = ranks->set(0, abort);
  std::promise<void> waits;
  std::atomic<bool> ready{false};
  auto woken = std::async(std::launch::async, [&] {
    bool first = true;
    return set->until(
        [&] {
          if (std::exchange(first, false)) waits.set_value();
          return ready.load();
        },
        Deadline::never());
  });
  waits.get_future().wait();
  ready.store(true);
  set->wake();
  CHECK(woken.get().ok());
}
