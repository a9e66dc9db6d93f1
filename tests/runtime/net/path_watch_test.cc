// When a path over which nothing is answered counts as lost.
#include "runtime/net/path_watch.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "runtime/net/socket_address.h"

namespace rueda::core {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLimit{5};

struct Look {
  int at;  ///< seconds
  PathState state;
  bool silent;
};

bool outcome_is_expected(const std::vector<Look>& looks) {
  PathSilence silence;
  const SteadyClock::time_point begin = SteadyClock::now();
  for (const Look& look : looks) {
    CAPTURE(look.at);
    if (silence.seen(look.state, begin + seconds(look.at), kLimit) != look.silent) return false;
  }
  return true;
}

TEST_CASE("a path is silent that has owed an answer for the limit") {
  CHECK(outcome_is_expected(
      {{0, {true, seconds(0)}, false}, {4, {true, seconds(4)}, false}, {5, {true, seconds(5)}, true}}));
}

TEST_CASE("time in which nothing was owed does not count") {
  CHECK(outcome_is_expected({{0, {false, seconds(100)}, false},
                             {50, {false, seconds(150)}, false},
                             {51, {true, seconds(151)}, false},
                             {54, {true, seconds(154)}, false},
                             {55, {true, seconds(155)}, true}}));
}

TEST_CASE("an answer between two looks counts") {
  CHECK(outcome_is_expected({{0, {true, seconds(0)}, false},
                             {8, {true, seconds(1)}, false},
                             {11, {true, seconds(4)}, false},
                             {12, {true, seconds(5)}, true}}));
}

TEST_CASE("a path that was not seen before owes nothing yet") {
  CHECK(outcome_is_expected(
      {{0, {true, seconds(60)}, false}, {4, {true, seconds(64)}, false}, {5, {true, seconds(65)}, true}}));
}

TEST_CASE("whoever slept gives every path its time again") {
  PathSilence silence;
  const SteadyClock::time_point begin = SteadyClock::now();
  CHECK_FALSE(silence.seen({true, seconds(0)}, begin, kLimit));
  silence.start_over();
  CHECK_FALSE(silence.seen({true, seconds(60)}, begin + seconds(60), kLimit));
  CHECK(silence.seen({true, seconds(65)}, begin + seconds(65), kLimit));
}

/// Two connected sockets of TCP.
struct Connection {
  Connection() {
    const UniqueFd listener = listen_on(SocketAddress::parse("127.0.0.1", 0).value()).value();
    const auto address = SocketAddress::parse("127.0.0.1", bound_port(listener.get()).value()).value();
    mine = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(mine.get(), address.raw(), address.bytes) == 0);
    theirs = UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    REQUIRE(theirs.valid());
  }
  UniqueFd mine, theirs;
};

TEST_CASE("a peer that takes nothing owes nothing once its kernel has answered") {
  const Connection connection;
  char byte = 'x';
  while (::send(connection.mine.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1 &&
         path_state(connection.mine.get()).outstanding) {
  }
  CHECK_FALSE(path_state(connection.mine.get()).outstanding);
  CHECK_FALSE(path_state(-1).outstanding);
}

TEST_CASE("a watch outlives what it watches, and names nobody without a reason") {
  PathWatch watch;
  uint64_t number = 0;
  {
    const Connection connection;
    number = watch.add(3, connection.mine.get());
    CHECK(watch.silent(SteadyClock::now(), kLimit).empty());
  }
  CHECK(watch.silent(SteadyClock::now(), kLimit).empty());
  watch.remove(number);
  watch.remove(number);
  CHECK(watch.silent(SteadyClock::now(), kLimit).empty());
}

TEST_CASE("a rank that no connection reaches is told with its reasons, once it has been so for the limit") {
  PathWatch watch;
  const auto begin = SteadyClock::now();
  CHECK(watch.silent(begin, kLimit).empty());
  watch.unreachable(3, begin, "no route");
  for (const int second : {1, 2, 3, 4}) CHECK(watch.silent(begin + seconds(second), kLimit).empty());
  const std::vector<SilentPath> found = watch.silent(begin + kLimit, kLimit);
  REQUIRE(found.size() == 1);
  CHECK(found.front().rank == 3);
  CHECK(found.front().unreachable == "no route");
  CHECK(watch.silent(begin + 3 * kLimit, kLimit).empty());  // who slept itself judges nobody
  watch.reached(3);
  for (int second = 0; second <= 5; ++second) {
    CHECK(watch.silent(begin + 3 * kLimit + seconds(second), kLimit).empty());
  }
}

}  // namespace
}  // namespace rueda::core
