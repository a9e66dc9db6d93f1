#include "runtime/store/fabric_store.h"

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "tests/support/memory_fabric.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

Deadline in_time() { return Deadline::after(std::chrono::minutes(2)); }
Deadline at_once() { return Deadline::after(milliseconds(20)); }

/// The stores of all ranks; they end in the order of their ranks from the last to the first, as rank 0 waits.
class Ranks {
 public:
  explicit Ranks(int size) : hub_(size) {
    for (int rank = 0; rank < size; ++rank) {
      stores_.push_back(std::make_unique<FabricStore>(hub_.fabric(rank), in_time()));
    }
  }
  ~Ranks() {
    while (!stores_.empty()) stores_.pop_back();
  }
  Store& operator[](size_t rank) { return *stores_[rank]; }
  void end(size_t rank) { stores_[rank].reset(); }
  FabricHub& hub() { return hub_; }

 private:
  FabricHub hub_;
  std::vector<std::unique_ptr<FabricStore>> stores_;
};

TEST_CASE("over a fabric what one rank sets every other gets") {
  Ranks ranks(3);
  for (size_t setter = 0; setter < 3; ++setter) {
    const std::string key = "key/" + std::to_string(setter);
    const std::string value = std::string("bin\0ary", 7) + std::to_string(setter);
    REQUIRE(ranks[setter].set(key, value).ok());
    for (size_t getter = 0; getter < 3; ++getter) CHECK(ranks[getter].get(key, in_time()).value() == value);
  }
}

TEST_CASE("over a fabric every rank adds to the same counter") {
  Ranks ranks(3);
  CHECK(ranks[1].add("count", 1).value() == 1);
  CHECK(ranks[0].add("count", 2).value() == 3);
  CHECK(ranks[2].add("count", -4).value() == -1);
  REQUIRE(ranks[0].set("text", "no number").ok());
  CHECK(ranks[1].add("text", 1).status().code() == Code::kInvalidArgument);
}

TEST_CASE("over a fabric a get waits until somebody sets the key") {
  Ranks ranks(3);
  auto first = std::async(std::launch::async, [&] { return ranks[1].get("late", in_time()); });
  auto second = std::async(std::launch::async, [&] { return ranks[0].get("late", in_time()); });
  REQUIRE(ranks[2].set("late", "now").ok());
  CHECK(first.get().value() == "now");
  CHECK(second.get().value() == "now");
}

TEST_CASE("over a fabric a get that nobody answers names its key, and its late answer is not a later one's") {
  Ranks ranks(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const auto missed = ranks[rank].get("never", at_once());
    CHECK(missed.status().code() == Code::kTimeout);
    CHECK_THAT(missed.status().sentence(), Contains("\"never\""));
  }
  REQUIRE(ranks[0].set("other", "right").ok());
  REQUIRE(ranks[0].set("never", "wrong").ok());
  CHECK(ranks[1].get("other", in_time()).value() == "right");
}

TEST_CASE("over a fabric keys and values too long are refused by rank 0 in words") {
  Ranks ranks(2);
  CHECK(ranks[1].set("key", std::string(kMaxValueBytes, 'v')).ok());
  CHECK(ranks[0].set(std::string(kMaxKeyBytes + 1, 'k'), "").code() == Code::kInvalidArgument);
}

TEST_CASE("rank 0's store serves until the last other rank has ended its own") {
  Ranks ranks(3);
  ranks.end(2);
  auto ended = std::async(std::launch::async, [&] { ranks.end(0); });
  REQUIRE(ranks[1].set("a", "still there").ok());
  CHECK(ranks[1].get("a", in_time()).value() == "still there");
  CHECK(ended.wait_for(milliseconds(0)) == std::future_status::timeout);
  ranks.end(1);
  ended.get();
}

TEST_CASE("a fabric that fails ends every wait in its store with the reason") {
  Ranks ranks(2);
  auto waiting = std::async(std::launch::async, [&] { return ranks[1].get("never", Deadline::never()); });
  ranks.hub().fail(Status(Code::kPeerLost, "the fabric is torn"));
  CHECK(waiting.get().status().sentence() == "the fabric is torn");
  CHECK(ranks[0].get("never", Deadline::never()).status().sentence() == "the fabric is torn");
}

}  // namespace
}  // namespace rueda::core
