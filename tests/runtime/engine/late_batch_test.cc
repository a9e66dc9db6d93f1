// A batch that runs for long: who tells of it, when, and what rank 0 makes of it.
#include "runtime/engine/late_batch.h"

#include <catch2/catch.hpp>

#include "runtime/diagnosis/flight_recorder.h"

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

constexpr SteadyClock::time_point kNow{1000s};

LateBatch late(std::chrono::nanoseconds age, uint64_t number = 3) {
  return {7, number, age, "allreduce \"w\"", {0, 2}};
}

}  // namespace

TEST_CASE("word of a batch travels within bounds, and what is cut off or too long is refused with the rank") {
  const std::vector<std::byte> frame = encode_late(late(31s));
  const LateBatch read = decode_late(frame, 2, 3).value();
  CHECK(read.set == 7);
  CHECK(read.number == 3);
  CHECK(read.age == 31s);
  CHECK(read.what == "allreduce \"w\"");
  CHECK(read.ranks == std::vector<int>{0, 2});
  for (size_t length = 0; length < frame.size(); ++length) {
    const Result<LateBatch> cut = decode_late(std::span(frame).first(length), 2, 3);
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.status().rank() == 2);
  }
  CHECK_THAT(decode_late(frame, 2, 2).status().sentence(),
             Contains("rank 2 sent a report of a late batch"));  // rank 2 of two
}

TEST_CASE(
    "a rank tells of what runs at the warning time and then at doubling intervals, and begins anew with the next") {
  LateWatch watch(30s);
  std::vector<int> told;
  for (int second = 1; second <= 300; ++second) {
    if (watch.due(1, std::chrono::seconds(second))) told.push_back(second);
  }
  CHECK(told == std::vector<int>{30, 60, 120, 240});
  CHECK_FALSE(watch.due(2, 29s));
  CHECK(watch.due(2, 30s));
}

TEST_CASE("what several ranks tell of one batch is one stall, of the age on the rank that has run it longest") {
  LateBatches batches;
  batches.note(late(30s), kNow);
  batches.note(late(29s), kNow);
  batches.note(late(5s, 4), kNow);
  const std::vector<Stalled> stalled = batches.stalled(kNow);
  REQUIRE(stalled.size() == 2);
  CHECK(stalled[0].kind == StallKind::kRunning);
  CHECK(stalled[0].set == 7);
  CHECK(stalled[0].batch == 3);
  CHECK(stalled[0].age == 30s);
  CHECK(stalled[0].have == std::vector<int>{0, 2});
  CHECK(stalled[0].lack.empty());
}

TEST_CASE("a batch that nobody tells of again has ended") {
  LateBatches batches;
  batches.note(late(30s), kNow);
  CHECK(batches.stalled(kNow + 40s).size() == 1);  // one told at the age of 60 s may be on its way
  CHECK(batches.stalled(kNow + 70s).empty());
}

TEST_CASE("of what runs on a rank the flight record names the oldest, with how much its batch has besides") {
  FlightRecorder recorder;
  CHECK_FALSE(recorder.longest_running());
  std::vector<FlightRecorder::Id> ids;
  for (const char* name : {"over", "queued", "w1", "w2"}) {
    ids.push_back(recorder.begin({name, 0, OpKind::kAllreduce, Dtype::kF32, 10, 40}, kNow));
  }
  recorder.update(
      ids, [](FlightRecorder::Id id) { return id; },
      [](OpRecord& record, FlightRecorder::Id) {
        record.batch = record.name() == "over" ? 1 : record.name() == "queued" ? 3 : 2;
        record.reach(OpState::kAgreed, kNow);
        if (record.name() != "queued") record.reach(OpState::kStarted, kNow + 1s);
        if (record.name() == "over") record.reach(OpState::kFinished, kNow + 2s);
      });
  const std::optional<FlightRecorder::Running> running = recorder.longest_running();
  REQUIRE(running);
  CHECK(running->first.name() == "w1");
  CHECK(running->first.batch == 2);
  CHECK(running->more == 1);
}

}  // namespace rueda::core
