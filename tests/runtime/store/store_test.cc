// One suite over every store of ours.
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "runtime/base/wire.h"
#include "runtime/store/long_value.h"
#include "runtime/store/memory_store.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_relay.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

JobKey numbered_key(uint8_t first) {
  JobKey key;
  key.present = true;
  for (size_t i = 0; i < key.bytes.size(); ++i) key.bytes[i] = static_cast<uint8_t>(first + i);
  return key;
}

/// A store and as many views of it as a test has threads.
class Rig {
 public:
  virtual ~Rig() = default;
  virtual std::unique_ptr<Store> view() = 0;
};

/// Passes calls on to a store that many threads may use.
class View : public Store {
 public:
  explicit View(Store& store) : store_(store) {}
  Status set(std::string_view key, std::string_view value) override { return store_.set(key, value); }
  Result<std::string> get(std::string_view key, Deadline deadline) override { return store_.get(key, deadline); }
  Result<int64_t> add(std::string_view key, int64_t amount) override { return store_.add(key, amount); }
  Status remove(std::string_view key) override { return store_.remove(key); }

 private:
  Store& store_;
};

class MemoryRig : public Rig {
 public:
  std::unique_ptr<Store> view() override { return std::make_unique<View>(store_); }

 private:
  MemoryStore store_;
};

class ServerRig : public Rig {
 public:
  enum class Use { kInside, kPlain, kTls, kRelay };
  explicit ServerRig(Use use) : use_(use) {
    StoreServerOptions options;
    if (use != Use::kPlain) options.key = numbered_key(1);
    server_ = StoreServer::start(options).value();
    where_ = {"127.0.0.1", server_->port(), "job", options.key};
    if (use != Use::kRelay) return;
    relay_ = StoreRelay::start(where_, {"127.0.0.1"}, "the relay", late()).value();
    where_.port = relay_->port();
  }
  std::unique_ptr<Store> view() override {
    if (use_ == Use::kInside) return std::make_unique<View>(*server_);
    return StoreClient::connect(where_, late()).value();
  }

 private:
  Use use_;
  std::unique_ptr<StoreServer> server_;
  StoreLocation where_;
  std::unique_ptr<StoreRelay> relay_;
};

std::vector<std::pair<const char*, std::unique_ptr<Rig>>> rigs() {
  std::vector<std::pair<const char*, std::unique_ptr<Rig>>> all;
  all.emplace_back("memory", std::make_unique<MemoryRig>());
  all.emplace_back("server, from inside", std::make_unique<ServerRig>(ServerRig::Use::kInside));
  all.emplace_back("server, plain", std::make_unique<ServerRig>(ServerRig::Use::kPlain));
  all.emplace_back("server, TLS", std::make_unique<ServerRig>(ServerRig::Use::kTls));
  all.emplace_back("server, through a relay", std::make_unique<ServerRig>(ServerRig::Use::kRelay));
  return all;
}

TEST_CASE("what one sets another gets, the last value counting") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto one = rig->view();
    const auto other = rig->view();
    REQUIRE(one->set("a/b", "first").ok());
    REQUIRE(one->set("a/b", std::string("bin\0ary", 7)).ok());
    CHECK(other->get("a/b", late()).value() == std::string("bin\0ary", 7));
    REQUIRE(one->set("empty", "").ok());
    CHECK(other->get("empty", late()).value().empty());
  }
}

TEST_CASE("a removed key is absent, counts from 0, and can be set anew") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto one = rig->view();
    const auto other = rig->view();
    REQUIRE(one->set("a/b", "value").ok());
    REQUIRE(one->add("n", 7).ok());
    REQUIRE(other->remove("a/b").ok());
    REQUIRE(other->remove("n").ok());
    REQUIRE(other->remove("absent").ok());
    CHECK(one->get("a/b", soon()).status().code() == Code::kTimeout);
    CHECK(one->add("n", 1).value() == 1);
    REQUIRE(one->set("a/b", "anew").ok());
    CHECK(other->get("a/b", late()).value() == "anew");
  }
}

TEST_CASE("a long value is read as it was written, and removed whole") {
  const size_t lengths[] = {0, 1, kMaxValueBytes - 16, kMaxValueBytes - 15, kMaxValueBytes, 5 * kMaxValueBytes + 3};
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto store = rig->view();
    for (const size_t length : lengths) {
      CAPTURE(length);
      std::string value(length, '\0');
      for (size_t i = 0; i < length; ++i) value[i] = static_cast<char>(i * 31 + i / 4096);
      const std::string key = "long" + std::to_string(length);
      REQUIRE(set_long(*store, key, value).ok());
      CHECK(get_long(*store, key, late()).value() == value);
      REQUIRE(remove_long(*store, key).ok());
      CHECK(get_long(*store, key, soon()).status().code() == Code::kTimeout);
      CHECK(store->get(key + "/2", soon()).status().code() == Code::kTimeout);
    }
  }
}

TEST_CASE("a long value that is too long, or not in parts, is refused with its key") {
  MemoryStore store;
  const Status status = set_long(store, "job/1/world", std::string(kMaxLongBytes + 1, 'x'));
  CHECK(status.sentence() == "store: the value for \"job/1/world\" has 67108865 bytes in parts; the limit is 67108864");
  CHECK(store.get("job/1/world/2", soon()).status().code() == Code::kTimeout);

  REQUIRE(store.set("plain", "another program's value").ok());
  CHECK_THAT(get_long(store, "plain", late()).status().sentence(), Contains("\"plain\" is not in the parts"));
  WireWriter lie;
  lie.u32(0x35555552);
  lie.varint(uint64_t{1} << 60);
  REQUIRE(store.set("lie", lie.take_text()).ok());
  CHECK(get_long(store, "lie", late()).status().code() == Code::kMismatch);
  REQUIRE(set_long(store, "cut", std::string(2 * kMaxValueBytes, 'y')).ok());
  REQUIRE(store.set("cut/2", "short").ok());
  CHECK(get_long(store, "cut", late()).status().code() == Code::kMismatch);
}

TEST_CASE("a get that nobody answers times out and names the key") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto store = rig->view();
    const auto value = store->get("job/7/endpoint/3", soon());
    REQUIRE_FALSE(value.ok());
    CHECK(value.status().code() == Code::kTimeout);
    CHECK_THAT(value.status().sentence(), Contains("job/7/endpoint/3"));
    CHECK(store->set("job/7/endpoint/3", "late").ok());  // and the store goes on
    CHECK(store->get("job/7/endpoint/3", soon()).value() == "late");
  }
}

TEST_CASE("a get waits for a later set") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto waiter = rig->view();
    const auto setter = rig->view();
    std::thread thread([&] {
      const auto asked = setter->get("asked", late());
      if (asked.ok()) static_cast<void>(setter->set("answer", asked.value() + "!"));
    });
    CHECK(waiter->set("asked", "x").ok());
    CHECK(waiter->get("answer", Deadline::never()).value() == "x!");
    thread.join();
  }
}

TEST_CASE("adds of many are atomic and start at 0") {
  constexpr int kThreads = 4;
  constexpr int kAdds = 50;
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([store = std::shared_ptr<Store>(rig->view())] {
        for (int k = 0; k < kAdds; ++k) static_cast<void>(store->add("n", 3));
      });
    }
    for (auto& thread : threads) thread.join();
    const auto store = rig->view();
    CHECK(store->add("n", -1).value() == kThreads * kAdds * 3 - 1);
    CHECK(store->get("n", late()).value() == std::to_string(kThreads * kAdds * 3 - 1));
  }
}

TEST_CASE("an add to what is no number, or over 64 bits, is refused") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto store = rig->view();
    REQUIRE(store->set("word", "seven").ok());
    CHECK(store->add("word", 1).status().code() == Code::kInvalidArgument);
    REQUIRE(store->add("big", INT64_MAX).ok());
    CHECK(store->add("big", 1).status().code() == Code::kInvalidArgument);
    CHECK(store->get("word", late()).value() == "seven");
  }
}

TEST_CASE("keys and values at their limits pass, beyond them they are refused") {
  for (auto& [name, rig] : rigs()) {
    CAPTURE(name);
    const auto store = rig->view();
    const std::string key(kMaxKeyBytes, 'k');
    const std::string value(kMaxValueBytes, 'v');
    CHECK(store->set(key, value).ok());
    CHECK(store->get(key, late()).value() == value);
    CHECK(store->set(key + "k", "v").code() == Code::kInvalidArgument);
    CHECK(store->set("k", value + "v").code() == Code::kInvalidArgument);
    CHECK(store->set("", "v").code() == Code::kInvalidArgument);
    CHECK(store->set("k", "still usable").ok());
  }
}

}  // namespace
}  // namespace rueda::core
