// A store that has the keys of several plans.
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "runtime/store/death.h"
#include "runtime/store/key_table.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"

namespace rueda::core {
namespace {

TEST_CASE("a verdict ends the waits for keys of its own job, and no others") {
  StoreServerOptions options;
  options.waits = StoreWaits::kForJobsToEnd;
  const auto server = StoreServer::start(options).value();
  const StoreLocation where{"127.0.0.1", server->port(), options.job, {}};
  REQUIRE(server->set("job.1/death", encode(DeathVerdict{0, 1, "a", 42, "killed"})).ok());
  const auto client = StoreClient::connect(where, late()).value();
  CHECK(client->get("job.1/key", late()).status().code() == Code::kPeerLost);
  CHECK(client->get("job.1/sub/key", late()).status().code() == Code::kPeerLost);
  std::thread sets([&] {
    for (const char* key : {"job/key", "job.2/key", "job.10/key", "key"}) CHECK(server->set(key, "value").ok());
  });
  for (const char* key : {"job/key", "job.2/key", "job.10/key", "key"})
    CHECK(client->get(key, late()).value() == "value");
  sets.join();
}

TEST_CASE("a waiter that throws takes the value from no other one") {
  KeyTable table;
  std::string told;
  for (const bool throws : {false, true, false, true, false}) {
    table.wait("key", [&told, throws](const std::string& value) {
      if (throws) throw std::runtime_error("waiter");
      told += value;
    });
  }
  CHECK_THROWS_WITH(table.set("key", "v"), "waiter");
  CHECK(told == "vvv");
  CHECK(*table.find("key") == "v");
  CHECK(table.waiting() == 0);
}

TEST_CASE("a rank that only reads another one's counter does not look like that one") {
  const auto server = StoreServer::start({}).value();
  int times = 0;  // on the server's thread, which has called before a later request is answered
  server->each_time("job.1/wishes/2", [&times] { ++times; });
  CHECK(server->add("job.1/wishes/2", 0).value() == 0);
  CHECK_FALSE(server->get("job.1/wishes/2", Deadline::after(std::chrono::nanoseconds(0))).ok());
  CHECK(server->add("job.1/wishes/2", 1).value() == 1);
  CHECK(server->add("job.1/wishes/2", 0).value() == 1);
  CHECK(server->add("job.1/wishes/2", 1).value() == 2);
  CHECK(server->add("job.1/wishes/2", 0).value() == 2);
  CHECK(times == 2);
}

TEST_CASE("a server calls nobody for keys whose calls were dropped, and keeps no wait for them") {
  const auto server = StoreServer::start({}).value();
  std::vector<std::string> called;  // on the server's thread, as above
  for (const std::string key : {"job.1/a", "job.1/b", "job.10/a", "job/reset/1", "job/reset/12"}) {
    server->each_time(key, [&called, key] { called.push_back(key); });
    server->when_set(key, [&called, key] { called.push_back(key); });
  }
  CHECK(server->waiting() == 10);
  REQUIRE(server->set("job.1/a", "1").ok());
  CHECK(called == std::vector<std::string>{"job.1/a", "job.1/a"});
  CHECK(server->waiting() == 9);
  server->forget_all("job.1/");
  server->forget("job/reset/1");
  CHECK(server->waiting() == 4);
  called.clear();
  for (const char* key : {"job.1/a", "job.1/b", "job.10/a", "job/reset/1", "job/reset/12"})
    REQUIRE(server->set(key, "2").ok());
  CHECK(called == std::vector<std::string>{"job.10/a", "job.10/a", "job/reset/12", "job/reset/12"});
}

TEST_CASE("a server removes all keys with one beginning, and frees their bytes") {
  const auto server = StoreServer::start({}).value();
  const auto now = [] { return Deadline::after(std::chrono::nanoseconds(0)); };
  for (const char* key : {"job.1", "job.1/a", "job.1/b/c", "job.10/a", "job/a"})
    REQUIRE(server->set(key, "value").ok());
  REQUIRE(server->set("job.1/death", "verdict").ok());
  server->remove_all("job.1/");
  CHECK(server->get("job.1/death", now()).ok());
  for (const char* key : {"job.1/a", "job.1/b/c"}) CHECK_FALSE(server->get(key, now()).ok());
  for (const char* key : {"job.1", "job.10/a", "job/a"}) CHECK(server->get(key, now()).ok());
  // A store that holds little more than this many bytes is full, unless each removal gives them back.
  const std::string large(kMaxValueBytes, 'x');
  const size_t values = KeyTable::kMaxTotalBytes / kMaxValueBytes;
  for (size_t i = 0; i < values + 64; ++i) {
    if (i % 64 == 0) server->remove_all("large/");
    REQUIRE(server->set("large/" + std::to_string(i), large).ok());
  }
}

}  // namespace
}  // namespace rueda::core
