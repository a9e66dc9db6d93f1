// Ranks as threads form epochs through real stores.
#include "runtime/rendezvous/form.h"

#include <dirent.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <thread>

#include "runtime/store/memory_store.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_keys.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

JobKey job_key() {
  JobKey key;
  key.present = true;
  key.bytes.fill(42);
  return key;
}

Identity identity_of(int rank, int size) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.local_size = size;  // listens on 127.0.0.1 alone
  identity.host = "a";
  identity.key = job_key();
  identity.worker = "worker" + std::to_string(rank);
  return identity;
}

/// What one rank does in a test: everything has a default.
struct Part {
  Identity identity;
  Settings settings;
  FormOptions options;
  std::chrono::milliseconds limit = std::chrono::minutes(3);
  bool absent = false;
  std::vector<std::string> after;  ///< begins when the store has these keys
};

std::vector<Part> parts_of(int size) {
  std::vector<Part> parts(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) parts[static_cast<size_t>(rank)].identity = identity_of(rank, size);
  return parts;
}

using Results = std::vector<std::optional<Result<Formation>>>;

/// All that are not absent form an epoch at once, each with a store of its own from `store_of`.
template <typename StoreOf>
Results form_all(const std::vector<Part>& parts, StoreOf&& store_of) {
  Results results(parts.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].absent) continue;
    threads.emplace_back([&, rank] {
      const Part& part = parts[rank];
      const std::shared_ptr<Store> store = store_of();
      for (const std::string& key : part.after) static_cast<void>(store->get(key, late()));
      const Deadline deadline = Deadline::after(part.limit);
      results[rank].emplace(form_epoch(part.identity, store.get(), part.settings, deadline, part.options));
    });
  }
  for (auto& thread : threads) thread.join();
  return results;
}

Results form_all(const std::vector<Part>& parts, MemoryStore& store) {
  return form_all(parts, [&store] { return std::shared_ptr<Store>(&store, [](Store*) {}); });
}

void check_one_host(const Results& results) {
  const int size = static_cast<int>(results.size());
  for (int rank = 0; rank < size; ++rank) {
    const auto& result = *results[static_cast<size_t>(rank)];
    CAPTURE(rank, result.status().sentence());
    REQUIRE(result.ok());
    const Formation& formed = result.value();
    CHECK(formed.plan.rank == rank);
    CHECK(formed.plan.size == size);
    CHECK(formed.plan.local_size() == size);
    CHECK(formed.plan.local_rank() == rank);
    CHECK(formed.plan.epoch == results[0]->value().plan.epoch);
    CHECK(formed.local.size() == static_cast<size_t>(size - 1));
    CHECK(formed.segment != nullptr);
    CHECK(formed.doorbell.valid());
    CHECK(formed.plan.ranks[0].worker == "worker0");
  }
}

/// Every rank sees the bytes that every other wrote into its own segment.
void check_shared_memory(const Results& results) {
  for (const auto& result : results) {
    const Formation& formed = result->value();
    formed.segment->lane(0).posted.store(100 + static_cast<uint64_t>(formed.plan.rank));
  }
  for (const auto& result : results) {
    for (const LocalPeer& peer : result->value().local) {
      CHECK(peer.segment->lane(0).posted.load() == static_cast<uint64_t>(100 + peer.rank));
    }
  }
}

size_t entries_of(const char* folder) {
  size_t count = 0;
  DIR* directory = ::opendir(folder);
  REQUIRE(directory != nullptr);
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

TEST_CASE("a job of one rank forms without store and sockets") {
  Identity identity = identity_of(0, 1);
  const auto formed = form_epoch(identity, nullptr, Settings(), late());
  REQUIRE(formed.ok());
  CHECK(formed.value().plan.size == 1);
  CHECK(formed.value().plan.homogeneous());
  CHECK(formed.value().plan.cross_size() == 1);
  CHECK(formed.value().transport == nullptr);
  CHECK(formed.value().local.empty());
}

TEST_CASE("ranks of one host form an epoch and share memory") {
  for (const int size : {2, 5, 16}) {
    CAPTURE(size);
    MemoryStore store;
    const auto results = form_all(parts_of(size), store);
    check_one_host(results);
    check_shared_memory(results);
  }
}

TEST_CASE("ranks form an epoch through a server over TLS") {
  StoreServerOptions options;
  options.key = job_key();
  const auto server = StoreServer::start(options).value();
  const StoreLocation where{"127.0.0.1", server->port(), "job", job_key()};
  const auto results =
      form_all(parts_of(4), [&] { return std::shared_ptr<Store>(StoreClient::connect(where, late()).value()); });
  check_one_host(results);
}

TEST_CASE("a segment stays below 20 MiB for any number of lanes and ranks") {
  for (const int lanes : {1, 4, 16}) {
    MemoryStore store;
    auto parts = parts_of(2);
    for (Part& part : parts) part.settings.num_lanes = lanes;
    const auto results = form_all(parts, store);
    REQUIRE(results[0]->ok());
    CHECK(results[0]->value().segment->layout().lanes == lanes);
    CHECK(results[0]->value().segment->layout().total_bytes() <= 20u << 20);
  }
}

TEST_CASE("an epoch of one rank and one of several use the memory that was prepared") {
  for (const int size : {1, 3}) {
    MemoryStore store;
    auto parts = parts_of(size);
    std::vector<SegmentReserve> reserves(static_cast<size_t>(size));
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      reserves[rank].prepare(parts[rank].settings, size);
      parts[rank].options.reserve = &reserves[rank];
    }
    const auto results = form_all(parts, store);
    check_one_host(results);
    check_shared_memory(results);
    for (SegmentReserve& reserve : reserves) {
      CHECK_FALSE(reserve.take(results[0]->value().segment->layout().total_bytes()));
    }
  }
}

TEST_CASE("rank 0's policy holds for all, each rank's own choices stay") {
  MemoryStore store;
  auto parts = parts_of(3);
  parts[0].settings.fusion_threshold = 1000;
  parts[1].settings.fusion_threshold = 2000;
  parts[2].settings.log_level = 1;
  const auto results = form_all(parts, store);
  for (const auto& result : results) {
    REQUIRE(result->ok());
    CHECK(result->value().plan.settings.fusion_threshold == 1000);
  }
  CHECK(results[2]->value().plan.settings.log_level == 1);
}

TEST_CASE("different builds fail init on all ranks with the same table") {
  MemoryStore store;
  auto parts = parts_of(4);
  parts[3].options.build = "other-build";
  parts[3].identity.host = "b";
  const auto results = form_all(parts, store);
  for (const auto& result : results) {
    REQUIRE_FALSE(result->ok());
    CHECK(result->status().code() == Code::kMismatch);
    CHECK(result->status().sentence() == results[0]->status().sentence());
  }
  CHECK_THAT(results[0]->status().sentence(), Contains("build: \"" + std::string(build_id()) +
                                                       "\" on ranks 0-2 (host a), \"other-build\" on rank 3 (host b)"));
}

TEST_CASE("settings that must match fail init on all ranks with the same table") {
  MemoryStore store;
  auto parts = parts_of(3);
  parts[1].settings.compression = CodecId::kFp16;
  parts[2].settings.deterministic = true;
  const auto results = form_all(parts, store);
  for (const auto& result : results) {
    REQUIRE_FALSE(result->ok());
    CHECK(result->status().code() == Code::kMismatch);
    CHECK_THAT(
        result->status().sentence(),
        Contains("RUEDA_COMPRESSION: \"none\" on rank 0 (host a), rank 2 (host a), \"fp16\" on rank 1 (host a)") &&
            Contains("RUEDA_DETERMINISTIC: \"0\" on ranks 0-1 (host a), \"1\" on rank 2 (host a)"));
  }
  SECTION("and with the same settings the same ranks form an epoch afterwards") {
    check_one_host(form_all(parts_of(3), store));
  }
}

TEST_CASE("a rank without the job key is named on all ranks") {
  MemoryStore store;
  auto parts = parts_of(2);
  parts[1].identity.key = {};
  const auto results = form_all(parts, store);
  for (const auto& result : results) {
    CHECK(result->status().code() == Code::kMismatch);
    CHECK_THAT(result->status().sentence(), Contains("job key: \"yes\" on rank 0 (host a), \"no\" on rank 1 (host a)"));
  }
}

TEST_CASE("where nobody has a key one travels through the caller's store") {
  MemoryStore store;
  auto parts = parts_of(3);
  for (Part& part : parts) part.identity.key = {};
  const auto results = form_all(parts, store);
  check_one_host(results);
  CHECK(results[0]->value().key.present);
  CHECK(results[0]->value().key.bytes == results[2]->value().key.bytes);
}

TEST_CASE("with RUEDA_INSECURE=1 no key is made") {
  MemoryStore store;
  auto parts = parts_of(2);
  for (Part& part : parts) {
    part.identity.key = {};
    part.settings.insecure = true;
  }
  const auto results = form_all(parts, store);
  check_one_host(results);
  CHECK_FALSE(results[0]->value().key.present);
}

TEST_CASE("a rank that never comes is named in time on all that did, and a later init is good") {
  MemoryStore store;
  auto parts = parts_of(4);
  parts[2].absent = true;
  parts[0].limit = milliseconds(100);
  parts[0].after = {wish_key("job", 1, 1), wish_key("job", 3, 1)};
  auto results = form_all(parts, store);
  for (const int rank : {0, 1, 3}) {
    const auto& result = *results[static_cast<size_t>(rank)];
    CAPTURE(rank);
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code() == Code::kTimeout);
    CHECK_THAT(result.status().sentence(), Contains("rank 2 of 4 did not come"));
  }
  check_one_host(form_all(parts_of(4), store));
}

TEST_CASE("without rank 0 the others say that it never came") {
  MemoryStore store;
  auto parts = parts_of(3);
  parts[0].absent = true;
  for (Part& part : parts) part.limit = milliseconds(100);
  const auto results = form_all(parts, store);
  for (const int rank : {1, 2}) {
    const auto& result = *results[static_cast<size_t>(rank)];
    CHECK(result.status().code() == Code::kTimeout);
    CHECK_THAT(result.status().sentence(), Catch::Matches("init: ranks? 0.*did not come.*"));
  }
  check_one_host(form_all(parts_of(3), store));
}

TEST_CASE("a rank that gave up is not counted on by a rank 0 that comes later") {
  MemoryStore store;
  auto early = parts_of(2);
  early[0].absent = true;
  early[1].limit = milliseconds(20);
  CHECK(form_all(early, store)[1]->status().code() == Code::kTimeout);
  auto lonely = parts_of(2);
  lonely[1].absent = true;
  lonely[0].limit = milliseconds(100);
  const auto result = form_all(lonely, store);
  CHECK(result[0]->status().code() == Code::kTimeout);
  CHECK_THAT(result[0]->status().sentence(), Contains("rank 1 of 2 did not come"));
  check_one_host(form_all(parts_of(2), store));
}

TEST_CASE("a rank on another host forms a host of its own and has a control link to rank 0") {
  MemoryStore store;
  auto parts = parts_of(4);
  parts[1].identity.host = "b";
  parts[3].identity.host = "b";
  const auto results = form_all(parts, store);
  for (const auto& result : results) {
    CAPTURE(result->status().sentence());
    REQUIRE(result->ok());
    const EpochPlan& plan = result->value().plan;
    CHECK(plan.host_of == std::vector<int>{0, 1, 0, 1});
    CHECK(plan.local_rank() == plan.rank / 2);
    CHECK(plan.local_size() == 2);
    CHECK(plan.cross_rank() == plan.rank % 2);
    CHECK(plan.cross_size() == 2);
    CHECK(plan.homogeneous());
    CHECK(result->value().local.size() == 1);
    CHECK(result->value().local[0].rank == (plan.rank + 2) % 4);
  }
  for (const int rank : {1, 3}) {
    CHECK(results[0]->value().transport->control_link(rank) != nullptr);
    CHECK(results[static_cast<size_t>(rank)]->value().transport->control_link(0) != nullptr);
  }
}

TEST_CASE("a worker that dies shows at the end of its life stream") {
  MemoryStore store;
  auto results = form_all(parts_of(2), store);
  REQUIRE(results[0]->ok());
  REQUIRE(results[1]->ok());
  pollfd entry{results[0]->value().local[0].life.get(), POLLIN, 0};
  CHECK(::poll(&entry, 1, 0) == 0);
  results[1].reset();
  CHECK(::poll(&entry, 1, 120'000) == 1);
}

TEST_CASE("twenty epochs in a row have numbers of their own and leave nothing") {
  MemoryStore store;
  std::set<uint64_t> epochs;
  size_t descriptors = 0;
  size_t threads = 0;
  for (int round = 0; round < 20; ++round) {
    {
      auto parts = parts_of(3);
      const bool fails = round % 5 == 4;
      if (fails) parts[2].settings.compression = CodecId::kBf16;
      const auto results = form_all(parts, store);
      if (fails) {
        CHECK(results[0]->status().code() == Code::kMismatch);
      } else {
        check_one_host(results);
        CHECK(epochs.insert(results[0]->value().plan.epoch).second);
      }
    }
    if (round == 1) {
      descriptors = entries_of("/proc/self/fd");
      threads = entries_of("/proc/self/task");
    }
  }
  CHECK(entries_of("/proc/self/fd") == descriptors);
  CHECK(entries_of("/proc/self/task") == threads);
}

TEST_CASE("a rank outside its job, or without a store, is refused at once") {
  MemoryStore store;
  CHECK(form_epoch(identity_of(2, 2), &store, Settings(), late()).status().code() == Code::kInvalidArgument);
  CHECK(form_epoch(identity_of(-1, 2), &store, Settings(), late()).status().code() == Code::kInvalidArgument);
  CHECK(form_epoch(identity_of(0, 0), &store, Settings(), late()).status().code() == Code::kInvalidArgument);
  CHECK(form_epoch(identity_of(0, 2), nullptr, Settings(), late()).status().code() == Code::kInvalidArgument);
}

TEST_CASE("a wish that is not ours fails init on all ranks") {
  MemoryStore store;
  REQUIRE(store.add(wishes_key("job", 1), 1).ok());
  REQUIRE(store.set(wish_key("job", 1, 1), "nonsense").ok());
  auto parts = parts_of(3);
  parts[1].absent = true;
  for (Part& part : parts) part.limit = std::chrono::seconds(60);
  const auto results = form_all(parts, store);
  for (const int rank : {0, 2}) {
    const auto& result = *results[static_cast<size_t>(rank)];
    CHECK(result.status().code() == Code::kMismatch);
    CHECK_THAT(result.status().sentence(), Contains("rank 1"));
  }
}

}  // namespace
}  // namespace rueda::core
