// Jobs that are large, and jobs that form many epochs: what both leave in a store stays within its limits.
#include <catch2/catch.hpp>
#include <set>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/locality.h"
#include "runtime/rendezvous/roll_call.h"
#include "runtime/store/long_value.h"
#include "runtime/store/memory_store.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_keys.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;

/// Counts the keys that a store has.
class CountedStore : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override {
    note(key);
    return store_.set(key, value);
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override { return store_.get(key, deadline); }
  Result<int64_t> add(std::string_view key, int64_t amount) override {
    note(key);
    return store_.add(key, amount);
  }
  Status remove(std::string_view key) override {
    MutexLock lock(mutex_);
    keys_.erase(std::string(key));
    return store_.remove(key);
  }
  std::set<std::string> keys() {
    MutexLock lock(mutex_);
    return keys_;
  }

 private:
  void note(std::string_view key) {
    MutexLock lock(mutex_);
    keys_.emplace(key);
  }
  Mutex mutex_;
  std::set<std::string> keys_;
  MemoryStore store_;
};

/// Ranks of one host form an epoch. It fails if they do not agree.
void form_once(Store& store, int size, bool agree) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&store, rank, size, agree] {
      Identity identity;
      identity.rank = rank;
      identity.size = identity.local_size = size;
      identity.host = "a";
      identity.key.present = true;
      identity.worker = "worker" + std::to_string(rank);
      Settings settings;
      if (rank == 1 && !agree) settings.compression = CodecId::kBf16;
      static_cast<void>(form_epoch(identity, &store, settings, late()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a job that forms epochs for weeks does not fill the store") {
  CountedStore store;
  std::vector<size_t> counts;
  for (int round = 0; round < 25; ++round) {
    form_once(store, round % 7 == 6 ? 2 : 3, round % 5 != 4);  // the job shrinks and grows, and every fifth epoch fails
    counts.push_back(store.keys().size());
  }
  for (const std::string& key : store.keys()) UNSCOPED_INFO(key);
  // Each rank keeps its last eight wishes with what belongs to them. Answers and epochs before the last one are gone.
  // Later each has the counter of those that came to nothing besides.
  CHECK(counts.back() <= counts[10] + 3);
  for (const std::string& key : store.keys()) CHECK_THAT(key, !Contains("/answer/"));
  // The launcher must know how many of the removed wishes came to nothing: the 5th, 10th and 15th of 17.
  CHECK(store.add(void_key("job", 0), 0).value() == 3);
}

/// The wish of a rank on a host of eight, with names and addresses as long as they are in large clusters.
Wish wish_in_large_job(int rank, int size) {
  Wish wish;
  wish.build = "b";
  wish.nonce = "nonce-" + std::to_string(rank);
  wish.rank = rank;
  wish.size = size;
  wish.agreed = print_agreed(Settings());
  wish.endpoint.pid = 100000 + rank;
  wish.endpoint.worker = "worker-" + std::to_string(rank) + "-of-a-job-with-a-long-name";
  const std::string host = std::to_string(rank / 8);
  wish.endpoint.host = "compute-" + host + ".partition-a.cluster.example.org";
  wish.endpoint.addresses = {"10.0." + host, "fd00:0:0:1::" + host, "192.168." + host, "fd00:0:0:2::" + host};
  wish.endpoint.port = 40000;
  wish.endpoint.unix_name = "rueda-0123456789abcdef0123456789abcdef-" + std::to_string(rank);
  return wish;
}

TEST_CASE("16384 ranks come together, and each reads the whole world") {
  constexpr int kRanks = 16384;
  const auto server = StoreServer::start({});
  REQUIRE(server.ok());
  Store& store = *server.value();
  RollCall call(store, "job", kRanks);
  for (int rank = 0; rank < kRanks; ++rank) REQUIRE(call.leave_wish(wish_in_large_job(rank, kRanks)).ok());
  const auto wishes = call.gather(late());
  REQUIRE(wishes.ok());
  CHECK(admit(wishes.value()).ok());
  World world;
  for (const Wish& wish : wishes.value()) world.ranks.push_back(wish.endpoint);
  world.agreed = wishes.value().front().agreed;
  const std::string bytes = encode(world);
  CHECK(bytes.size() > 2 * kMaxValueBytes);
  REQUIRE(set_long(store, world_key("job", 1), bytes).ok());
  REQUIRE(call.answer(wishes.value(), {}, 1).ok());

  const auto client = StoreClient::connect({"127.0.0.1", server.value()->port(), "job", {}}, late());
  REQUIRE(client.ok());
  RollCall last(*client.value(), "job", kRanks);
  CHECK(last.await_answer(wishes.value().back().nonce, late()).value() == 1);
  const auto read = get_long(*client.value(), world_key("job", 1), late());
  REQUIRE(read.ok());
  const auto learned = decode_world(read.value());
  REQUIRE(learned.ok());
  REQUIRE(learned.value().ranks.size() == kRanks);
  CHECK(learned.value().ranks.back().unix_name == world.ranks.back().unix_name);
  const std::vector<int> hosts = partition(learned.value().ranks, std::vector<LocalReport>(kRanks));
  CHECK(hosts.back() == kRanks / 8 - 1);
  CHECK(encode(Status(), std::vector<uint64_t>(hosts.begin(), hosts.end())).size() < kMaxValueBytes);
}

}  // namespace
}  // namespace rueda::core
