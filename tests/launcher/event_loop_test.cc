// What hvdrun's loop does when its process has no descriptor left: it neither misses what comes nor spins until then.

#include "launcher/event_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <span>
#include <string>

#include "launcher/notice_desk.h"
#include "runtime/net/unix_socket.h"
#include "tests/support/no_descriptors.h"

namespace rueda::core::launcher {
namespace {

using test::cpu_time;
using test::NoDescriptors;

/// Longer than the pauses of a loop that rests, and in CPU time much for one.
constexpr std::chrono::milliseconds kWhile{500};
constexpr std::chrono::milliseconds kMuch{100};
constexpr std::chrono::minutes kLatest{3};

/// Runs the loop for a time, or until something stops it.
void run_for(EventLoop& loop, std::chrono::milliseconds time) {
  Timer end(loop);
  end.start(time, [&loop] { loop.stop(); });
  loop.run();
}

}  // namespace

TEST_CASE("a watch that found no descriptor of its own waits for its descriptor, and rests meanwhile") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const UniqueFd reading(ends[0]), writing(ends[1]);
  EventLoop loop;
  Timer later(loop);  // with it the loop takes its own descriptors
  const NoDescriptors none;
  FdWatch watch(loop, reading.get(), Interest::kRead);
  int calls = 0;
  watch.arm([&] {
    ++calls;
    loop.stop();
  });
  const auto begin = cpu_time();
  later.start(kWhile, [&] {
    CHECK(calls == 0);
    CHECK(cpu_time() - begin < kMuch);
    REQUIRE(write(writing.get(), "x", 1) == 1);
  });
  run_for(loop, kLatest);
  CHECK(calls == 1);
}

TEST_CASE("a watch that found no descriptor of its own calls back once, and not after it was disarmed") {
  EventLoop loop;
  Timer end(loop);  // with it the loop takes its own descriptors
  const UniqueFd always(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const NoDescriptors none;
  FdWatch watch(loop, always.get(), Interest::kRead);
  int calls = 0;
  watch.arm([&] { ++calls; });
  watch.disarm();
  watch.arm([&] {
    calls += 10;
    loop.post([&loop] { loop.stop(); });
  });
  end.start(kLatest, [&loop] { loop.stop(); });
  loop.run();
  CHECK(calls == 10);
}

TEST_CASE("a desk that has no descriptor for its visitor rests, and serves it once there is one") {
  EventLoop loop;
  NoticeDesk desk(loop, {[](const std::string&) { return Result<std::string>(std::string("noted")); },
                         [] { return Result<std::string>(std::string("noted")); }});
  REQUIRE(desk.open().ok());
  NoDescriptors none;
  none.free_one();
  const DialledSocket visitor = dial_abstract("rueda-notice-" + std::to_string(getpid()));
  REQUIRE(visitor.fd.valid());
  send_packet(visitor.fd.get(), std::as_bytes(std::span("H", 1)));
  const auto begin = cpu_time();
  Timer later(loop);
  later.start(kWhile, [&] {
    pollfd answer{visitor.fd.get(), POLLIN, 0};
    CHECK(poll(&answer, 1, 0) == 0);
    CHECK(cpu_time() - begin < kMuch);
    none.free_one();
  });
  FdWatch answered(loop, visitor.fd.get(), Interest::kRead);
  answered.arm([&] { loop.stop(); });
  run_for(loop, kLatest);
  const Packet packet = receive_packet(visitor.fd.get(), 64, 0);
  CHECK(packet.kind == PacketKind::kPacket);
  CHECK(packet.bytes.size() == 6);  // '0' and the sentence
}

}  // namespace rueda::core::launcher
