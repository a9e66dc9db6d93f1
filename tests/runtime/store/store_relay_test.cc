// One connection to a store for many clients: StoreRelay, and the desks that it is made of.
#include "runtime/store/store_relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/wire.h"
#include "runtime/net/unix_socket.h"
#include "runtime/store/death.h"
#include "runtime/store/shared_store.h"
#include "runtime/store/store_listener.h"
#include "runtime/store/store_server.h"
#include "tests/support/deadlines.h"
#include "tests/support/fault_proxy.h"
#include "tests/support/raw_connection.h"
#include "tests/support/scale.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

JobKey relayed_key() {
  JobKey key;
  key.present = true;
  key.bytes.fill(11);
  return key;
}

StoreServerOptions relayed_server(size_t max_sessions = 100) {
  StoreServerOptions options;
  options.key = relayed_key();
  options.waits = StoreWaits::kForJobsToEnd;
  options.max_sessions = max_sessions;
  return options;
}

StoreLocation relayed_at(uint16_t port) { return {"127.0.0.1", port, "job", relayed_key()}; }

std::unique_ptr<StoreRelay> relay_to(uint16_t port) {
  return StoreRelay::start(relayed_at(port), {"127.0.0.1"}, "the relay of this test", late()).value();
}

std::unique_ptr<StoreClient> client_of(const StoreRelay& relay) {
  return StoreClient::connect(relayed_at(relay.port()), late()).value();
}

TEST_CASE("many clients reach a store that takes one connection") {
  const auto server = StoreServer::start(relayed_server(1)).value();
  const auto relay = relay_to(server->port());
  CHECK_FALSE(StoreClient::connect(relayed_at(server->port()), soon()).ok());
  std::vector<std::unique_ptr<StoreClient>> clients;
  for (int i = 0; i < 5; ++i) clients.push_back(client_of(*relay));
  for (const auto& client : clients) CHECK(client->add("n", 1).ok());
  CHECK(server->get("n", late()).value() == "5");
}

TEST_CASE("who waits at a relay holds nobody up, and is told when its time is over or who died") {
  const auto server = StoreServer::start(relayed_server()).value();
  const auto relay = relay_to(server->port());
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([client = client_of(*relay), key = "key " + std::to_string(i)] {
      CHECK(client->get(key, late()).value() == "its value");
    });
  }
  const auto other = client_of(*relay);
  CHECK(other->get("never", soon()).status().code() == Code::kTimeout);
  for (int i = 0; i < 3; ++i) CHECK(other->set("key " + std::to_string(i), "its value").ok());
  for (std::thread& thread : waiting) thread.join();
  const DeathVerdict verdict{0, 1, "a", 42, "exited with code 3"};
  REQUIRE(server->set("job/death", encode(verdict)).ok());
  CHECK(other->get("job/never", late()).status().sentence() == verdict.status().sentence());
}

TEST_CASE("a relay has its store's key, and asks for it") {
  const auto server = StoreServer::start(relayed_server()).value();
  StoreLocation other = relayed_at(server->port());
  other.key.bytes.fill(12);
  const auto refused = StoreRelay::start(other, {"127.0.0.1"}, "the relay of this test", late());
  CHECK_THAT(refused.status().sentence(), Contains("another job key"));
  const auto relay = relay_to(server->port());
  other.port = relay->port();
  CHECK_THAT(StoreClient::connect(other, late()).status().sentence(), Contains("another job key"));
}

TEST_CASE("whoever asks a relay that lost its store is told so, whoever waited and whoever comes") {
  auto server = StoreServer::start(relayed_server()).value();
  const uint16_t port = server->port();
  const auto relay = relay_to(port);
  const auto waits = client_of(*relay);
  const auto comes = client_of(*relay);
  const std::string where = "the relay of this test has lost the store at 127.0.0.1:" + std::to_string(port);
  std::thread waiting([&] {
    const auto value = waits->get("never", late());
    CHECK(value.status().code() == Code::kSystem);
    CHECK_THAT(value.status().sentence(), Contains(where));
  });
  REQUIRE(comes->set("a", "1").ok());
  server.reset();
  waiting.join();
  CHECK_THAT(comes->set("a", "2").sentence(), Contains(where));
  CHECK_THAT(waits->get("a", late()).status().sentence(), Contains(where));  // and its connection still stands
}

TEST_CASE("a relay whose connection ends at any byte leaves nobody without an answer") {
  const auto server = StoreServer::start(relayed_server()).value();
  const auto use = [](const StoreRelay& relay) {
    std::vector<std::thread> clients;
    for (const std::string own : {"a", "b"}) {
      clients.emplace_back([own, &relay] {
        const auto client = client_of(relay);
        const Status set = client->set(own, "1");
        CHECK((set.ok() || set.code() == Code::kSystem));
        const auto both = client->get(own == "a" ? "b" : "a", late());
        CHECK((both.ok() || both.status().code() == Code::kSystem));
      });
    }
    for (std::thread& client : clients) client.join();
  };
  test::FaultProxy whole({.target = server->port()});
  use(*relay_to(whole.port()));
  for (const test::Flow flow : {test::Flow::kUp, test::Flow::kDown}) {
    for (size_t cut = 0; cut < whole.recorded(flow).size(); cut += kThorough ? 7 : 61) {
      CAPTURE(flow == test::Flow::kUp, cut);
      test::FaultProxy proxy({.target = server->port(), .cut = test::Cut{flow, cut, test::CutKind::kReset}});
      use(*relay_to(proxy.port()));
    }
  }
}

/// What one client does to the store, drawn; the sum of its adds.
int64_t act(StoreClient& client, int self, int clients, unsigned seed) {
  std::mt19937 random(seed);
  int64_t sum = 0;
  for (int turn = 0; turn < 40; ++turn) {
    const std::string mark = std::to_string(turn);
    switch (random() % 3) {
      case 0: {
        const auto amount = static_cast<int64_t>(random() % 100) - 50;
        CHECK(client.add("sum", amount).ok());
        sum += amount;
        break;
      }
      case 1:
        CHECK(client.get("never " + mark, Deadline::after(milliseconds(1))).status().code() == Code::kTimeout);
        break;
      default: break;
    }
    CHECK(client.set("at " + mark + " " + std::to_string(self), mark).ok());
    const std::string other = std::to_string((self + 1) % clients);
    CHECK(client.get("at " + mark + " " + other, late()).value() == mark);
  }
  return sum;
}

TEST_CASE("through a relay, two of them, and directly a store is one store: seeded programs") {
  for (unsigned seed = 1; seed <= (kThorough ? 8 : 2); ++seed) {
    CAPTURE(seed);
    const auto server = StoreServer::start(relayed_server()).value();
    const auto one = relay_to(server->port());
    const auto behind_it = relay_to(one->port());
    const std::vector<uint16_t> ports{server->port(), one->port(), behind_it->port(), one->port(), behind_it->port()};
    std::vector<int64_t> sums(ports.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ports.size(); ++i) {
      threads.emplace_back([&, i] {
        const auto client = StoreClient::connect(relayed_at(ports[i]), late()).value();
        sums[i] =
            act(*client, static_cast<int>(i), static_cast<int>(ports.size()), seed * 100 + static_cast<unsigned>(i));
      });
    }
    for (std::thread& thread : threads) thread.join();
    int64_t sum = 0;
    for (const int64_t one_sum : sums) sum += one_sum;
    CHECK(server->add("sum", 0).value() == sum);
  }
}

/// The stores of a host's ranks, opened side by side.
std::vector<std::unique_ptr<Store>> open_together(const StoreLocation& where, size_t ranks) {
  std::vector<std::unique_ptr<Store>> stores(ranks);
  std::vector<std::thread> threads;
  for (auto& store : stores) {
    threads.emplace_back([&] {
      auto opened = open_shared_store(where, late());
      CHECK(opened.status().sentence() == "");
      if (opened.ok()) store = std::move(opened).value();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return stores;
}

TEST_CASE("ranks of a host share one connection, whoever of them leaves first, and the next ones another") {
  const auto server = StoreServer::start(relayed_server(1)).value();
  std::mt19937 random(7);
  for (int round = 1; round <= (kThorough ? 20 : 5); ++round) {
    auto stores = open_together(relayed_at(server->port()), 4);
    for (const auto& store : stores) CHECK(store->add("n", 1).ok());
    CHECK(server->get("n", late()).value() == std::to_string(round * 4));
    std::shuffle(stores.begin(), stores.end(), random);
    std::vector<std::thread> leaving;  // who relays waits for the others
    for (auto& store : stores) leaving.emplace_back([&store] { store.reset(); });
    for (std::thread& thread : leaving) thread.join();
  }
}

TEST_CASE("who relays and leaves first goes on for the others") {
  const auto server = StoreServer::start(relayed_server(1)).value();
  const StoreLocation where = relayed_at(server->port());
  auto relays = open_shared_store(where, late()).value();
  const auto other = open_shared_store(where, late()).value();
  relays.reset();  // waits a moment for the other, who does not leave
  CHECK(other->set("a", "1").ok());
  const auto comes = open_shared_store(where, late()).value();
  CHECK(comes->get("a", late()).value() == "1");
}

/// The name under which this process relays just now. Other processes may relay, too, so the socket must be open here.
std::string name_of_relay() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the descriptor of this loop, at its end
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find("@rueda-store-");
    if (at == std::string::npos) continue;
    const size_t last = line.find_last_not_of(' ', at - 1);
    const std::string inode = line.substr(line.rfind(' ', last) + 1, last - line.rfind(' ', last));
    if (own.contains("socket:[" + inode + "]")) return line.substr(at + 1);
  }
  return {};
}

TEST_CASE("where somebody else holds the name of the relay, ranks connect by themselves") {
  const auto server = StoreServer::start(relayed_server()).value();
  const StoreLocation where = relayed_at(server->port());
  auto relays = open_shared_store(where, late());
  const std::string name = name_of_relay();
  REQUIRE(name != "");
  relays = Status(Code::kShutDown, "no more");
  auto options = relayed_server();
  options.key.bytes.fill(12);
  const auto stranger = StoreServer::start(options).value();
  const UniqueFd holder = listen_abstract(name).value();
  std::thread lies([&] {
    pollfd entry{holder.get(), POLLIN, 0};
    REQUIRE(::poll(&entry, 1, 120'000) == 1);
    const AcceptedSocket came = accept_one(holder.get());
    WireWriter port;
    port.u16(stranger->port());
    send_packet(came.fd.get(), port.view());
    while (receive_packet(came.fd.get(), 1, 0).kind == PacketKind::kNone) ::poll(&entry, 1, 0);
  });
  const auto store = open_shared_store(where, late());
  lies.join();
  REQUIRE(store.status().sentence() == "");
  CHECK(store.value()->set("a", "1").ok());
}

/// Waits until the relay that had the name has gone.
UniqueFd bind_without_listening(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  REQUIRE(name.size() < sizeof address.sun_path);
  name.copy(address.sun_path + 1, name.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const Deadline limit = late();
  while (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0) REQUIRE_FALSE(limit.passed());
  return fd;
}

TEST_CASE("ranks wait for one that has bound the name of the relay and does not listen yet, but not for ever") {
  const bool dies = GENERATE(true, false);
  const auto server = StoreServer::start(relayed_server(dies ? 1 : 100)).value();
  const StoreLocation where = relayed_at(server->port());
  auto relays = open_shared_store(where, late());
  const std::string name = name_of_relay();
  REQUIRE(name != "");
  relays = Status(Code::kShutDown, "no more");
  UniqueFd bound = bind_without_listening(name);
  std::vector<std::unique_ptr<Store>> stores;
  std::thread opening([&] { stores = open_together(where, 3); });
  // By its end all three have asked for the name many times.
  if (dies) {
    CHECK(server->get("never", Deadline::after(milliseconds(300))).status().code() == Code::kTimeout);
    bound.reset();
  }
  opening.join();
  for (const auto& store : stores) {
    REQUIRE(store != nullptr);
    CHECK(store->add("n", 1).ok());  // if it dies, the server takes one connection
  }
  CHECK(server->get("n", late()).value() == "3");
}

TEST_CASE("a shared store that nobody serves is missed as one is that is not shared") {
  const uint16_t port = StoreServer::start(relayed_server()).value()->port();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([port] {
      const auto store = open_shared_store(relayed_at(port), soon());
      CHECK(store.status().code() == Code::kTimeout);
      CHECK_THAT(store.status().sentence(), Contains("refused") && Contains(std::to_string(port)));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// A store and a relay to it whose loops this thread runs.
TEST_CASE("a client that leaves while it waits leaves nothing behind, at the relay's store either") {
  boost::asio::io_context io(1);
  const auto guard = boost::asio::make_work_guard(io);
  KeyTable table;
  TableDesk desk(io, table, StoreWaits::kForJobsToEnd);
  const auto listener = StoreListener::start(io, desk, relayed_server()).value();
  std::thread client([port = listener->port()] {
    const auto relay = relay_to(port);
    const auto leaves = StoreWatch::start(relayed_at(relay->port()), "job/never", late()).value();
    const auto stays = client_of(*relay);
    CHECK(stays->set("asked", "1").ok());
    static_cast<void>(stays->get("job/go", late()));
  });
  const auto waiting_until = [&](size_t count) {
    while (table.waiting() != count) io.run_one();
  };
  waiting_until(4);  // "job/never" and "job/go", each with the end key
  REQUIRE(table.set("job/go", "1").ok());
  waiting_until(0);
  client.join();
}

TEST_CASE("a request that is cancelled is answered no more, and its id is free") {
  const auto server = StoreServer::start({}).value();
  test::RawConnection client(server->port());
  for (const StoreRequest& request :
       {StoreRequest{StoreOperation::kGet, "k", -1, {}, 1}, StoreRequest{StoreOperation::kCancel, {}, 0, {}, 1},
        StoreRequest{StoreOperation::kAdd, "n", 5, {}, 1}}) {
    const auto bytes = encode(request);
    client.say({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  CHECK(client.hear(4).size() == 4);
  CHECK(server->get("n", late()).value() == "5");
}

TEST_CASE("a desk forgets what was cancelled, and what was cancelled while its answer was on the way") {
  boost::asio::io_context io(1);
  KeyTable table;
  TableDesk desk(io, table, StoreWaits::kForJobsToEnd);
  std::vector<std::string> answers;
  uint64_t second = 0;
  StoreRequest request{StoreOperation::kGet, "job/key", -1, {}};
  desk.ask(request, [&](const StoreReply& reply) {
    answers.push_back("first " + reply.value);
    desk.cancel(second);  // woken by the same `set`
  });
  second = desk.ask(request, [&](const StoreReply& reply) { answers.push_back("second " + reply.value); });
  const uint64_t third = desk.ask(request, [&](const StoreReply&) { answers.emplace_back("third"); });
  CHECK(table.waiting() == 6);
  desk.cancel(third);
  CHECK(table.waiting() == 4);
  REQUIRE(table.set("job/key", "value").ok());
  CHECK(answers == std::vector<std::string>{"first value"});
  CHECK(table.waiting() == 0);
}

}  // namespace
}  // namespace rueda::core
