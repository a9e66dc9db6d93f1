#include "runtime/net/fabric_transport.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "runtime/base/unique_fd.h"
#include "tests/support/memory_fabric.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

/// Another transport, of which only the event loop is asked for.
class NoTransport : public Transport {
 public:
  std::unique_ptr<ControlLink> control_link(int) override { return nullptr; }
  std::unique_ptr<ChannelSet> channel_set(int, const Abort&) override { return nullptr; }
  void wake_all() override {}
  void poll(std::chrono::nanoseconds) override {}
  void watch(int, std::function<void()>) override {}
  void unwatch(int) override {}
  Status fault() const override { return {}; }
  std::vector<SilentPath> silent_paths(std::chrono::nanoseconds) override { return {}; }
};

TransportEpoch epoch_of(int rank) {
  TransportEpoch epoch;
  epoch.job = "job";
  epoch.rank = rank;
  for (int peer = 0; peer < 2; ++peer) epoch.ranks.push_back({"host" + std::to_string(peer), 100 + peer, {}, 0});
  return epoch;
}

/// Two ranks that share nothing but a fabric.
class Pair {
 public:
  explicit Pair(bool control = true, bool data = true) : hub_(2) {
    for (int rank = 0; rank < 2; ++rank) {
      const int other[] = {1 - rank};
      doorbells_[rank] = UniqueFd(::eventfd(0, EFD_CLOEXEC));
      sides_[rank] = std::make_unique<FabricTransport>(std::make_unique<NoTransport>(),
                                                       FabricShare{hub_.fabric(rank), control, data}, epoch_of(rank),
                                                       other, doorbells_[rank].get());
    }
  }
  FabricTransport& side(int rank) { return *sides_[rank]; }
  /// Sleeps until the rank's bell rings.
  void await_ring(int rank) {
    uint64_t count = 0;
    REQUIRE(::read(doorbells_[rank].get(), &count, sizeof count) == sizeof count);
  }
  FabricHub& hub() { return hub_; }

 private:
  FabricHub hub_;
  UniqueFd doorbells_[2];
  std::unique_ptr<FabricTransport> sides_[2];
};

Frame frame_of(const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Frame await_frame(Pair& pair, ControlLink& link, int rank) {
  for (;;) {
    if (auto frame = link.receive()) return *frame;
    pair.await_ring(rank);
  }
}

TEST_CASE("control frames over a fabric ring the coordinator, and their peer is called by its full name") {
  Pair pair;
  const auto here = pair.side(0).control_link(1);
  const auto there = pair.side(1).control_link(0);
  REQUIRE(here != nullptr);
  REQUIRE(there != nullptr);
  here->send(frame_of("last"), Urgency::kWithNextTurn);
  here->close_send();
  CHECK(await_frame(pair, *there, 1) == frame_of("last"));
  while (there->status().ok()) pair.await_ring(1);
  CHECK_THAT(there->status().sentence(), Contains("rank 0 (host host0, pid 100) has ended its side"));
}

TEST_CASE("a fabric that has failed is what its control links say") {
  Pair pair;
  const auto here = pair.side(0).control_link(1);
  CHECK(here->status().ok());
  pair.hub().fail(Status(Code::kPeerLost, "the fabric is torn"));
  CHECK(here->status().sentence() == "the fabric is torn");
}

TEST_CASE("what a fabric does not carry stays with the transport that it is around") {
  Pair data_only(false, true);
  Abort abort;
  CHECK(data_only.side(0).control_link(1) == nullptr);
  CHECK(data_only.side(0).channel_set(0, abort) != nullptr);
  Pair control_only(true, false);
  CHECK(control_only.side(0).control_link(1) != nullptr);
  CHECK(control_only.side(0).channel_set(0, abort) == nullptr);
}

}  // namespace
}  // namespace rueda::core
