#include "runtime/diagnosis/dump.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "runtime/diagnosis/dump_file.h"
#include "runtime/diagnosis/flight_recorder.h"
#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

RankDump example() {
  FlightRecorder recorder;
  const auto now = SteadyClock::now();
  static_cast<void>(recorder.begin({"a \"quoted\"\n\xff name", 2, OpKind::kAllreduce, Dtype::kF32, 10, 40}, now));
  const std::vector<FlightRecorder::Id> second = {recorder.begin({"", 0, OpKind::kBarrier, Dtype::kF32, 0, 0}, now)};
  recorder.update(
      second, [](FlightRecorder::Id id) { return id; },
      [now](OpRecord& record, FlightRecorder::Id) {
        record.reach(OpState::kProposed, now);
        record.reach(OpState::kAgreed, now);
        record.batch = 7;
        record.algorithm = 3;
        record.error = Code::kPeerLost;
        record.reach(OpState::kFailed, now);
      });
  RankDump dump;
  dump.job = "job";
  dump.epoch = 4;
  dump.rank = 1;
  dump.size = 3;
  dump.host = "a";
  dump.pid = 77;
  dump.status = "ok";
  dump.activity = "train.py:31 in step";
  dump.taken = unix_now();
  dump.sets = {{2, "a \"quoted\" set", {0, 1}}, {5, "", {1, 2}}};
  dump.operations = dumped(recorder.records(), [](uint8_t number) { return "algorithm" + std::to_string(number); });
  return dump;
}

}  // namespace

TEST_CASE("a dump goes through JSON unchanged, whatever is in a name") {
  const RankDump dump = example();
  const Result<RankDump> read = dump_from_json(to_json(dump));
  REQUIRE(read.ok());
  CHECK(to_json(read.value()) == to_json(dump));
  CHECK(read.value().rank == 1);
  CHECK(read.value().activity == "train.py:31 in step");
  REQUIRE(read.value().operations.size() == 2);
  const DumpedOp& failed = read.value().operations[1];
  CHECK(failed.state == OpState::kFailed);
  CHECK(failed.error == "PEER_LOST");
  CHECK(failed.batch == 7u);
  CHECK(failed.algorithm == "algorithm3");
  CHECK(failed.when[static_cast<size_t>(OpState::kStarted)] == 0);
  CHECK_FALSE(read.value().operations[0].batch.has_value());
}

TEST_CASE("what is no dump is refused with a sentence") {
  const std::string text = to_json(example());
  for (const std::string& wrong : {std::string(), std::string("{}"), std::string("[1]"),
                                   text.substr(0, text.size() / 2), std::string("{\"format\": \"another\"}")}) {
    const Result<RankDump> read = dump_from_json(wrong);
    REQUIRE_FALSE(read.ok());
    CHECK_THAT(read.status().sentence(), Contains("this is not a flight record"));
  }
}

TEST_CASE("a dump's file is named for its rank and replaces the one before") {
  CHECK(dump_path("/x/{rank}/d{rank}", 12) == "/x/12/d12");
  CHECK(dump_path("/x/dump", 12) == "/x/dump.12");
  const test::TemporaryFolder folder;
  const RankDump dump = example();
  std::ofstream(folder.file("precious")) << "kept";
  // A stranger who guesses the name finds no use for it.
  const std::string part = folder.file("r1.json." + std::to_string(::getpid()) + ".part");
  std::filesystem::create_symlink("precious", part);
  REQUIRE(write_dump(dump, folder.file("r{rank}.json")).ok());
  CHECK(test::text_of(folder.file("precious")) == "kept");
  REQUIRE(write_dump(dump, folder.file("r{rank}.json")).ok());
  CHECK(dump_from_json(test::text_of(folder.file("r1.json"))).ok());
  CHECK_FALSE(std::filesystem::exists(part));
  const Status refused = write_dump(dump, folder.file("no/such/folder"));
  CHECK(refused.code() == Code::kSystem);
  CHECK_THAT(refused.sentence(), Contains("no/such/folder.1"));
}

TEST_CASE("the log lines of a dump tell what is in flight from what is over") {
  const std::vector<std::string> lines = dump_lines(example());
  REQUIRE(lines.size() == 6);
  CHECK_THAT(lines[0], Contains("rank 1 of 3 (host a, pid 77)") && Contains("2 operations, 1 in flight"));
  CHECK_THAT(lines[1], Contains("train.py:31 in step"));
  CHECK_THAT(lines[3], Contains("#1 allreduce") &&
                           Contains("(f32, 10 elements) of process set \"a \"quoted\" set\" (ranks 0-1): enqueued"));
  CHECK_THAT(lines[5], Contains("#2 barrier: failed") && Contains("with PEER_LOST"));
}

TEST_CASE("in an elastic job a record names its worker and plan, in JSON and in the log") {
  RankDump dump = example();
  CHECK_THAT(to_json(dump), !Contains("worker") && !Contains("plan"));
  dump.plan = 5;
  dump.workers = {0, 2, 3};
  const RankDump read = dump_from_json(to_json(dump)).value();
  CHECK(to_json(read) == to_json(dump));
  CHECK_THAT(to_json(dump), Contains("\"plan\": 5,\n \"worker\": 2,"));
  CHECK(read.who() == "worker 2 (rank 1 of plan 5)");
  CHECK(read.worker_of(2) == 3);
  for (const std::string& line : dump_lines(read)) CHECK_THAT(line, StartsWith("worker 2 (rank 1 of plan 5)"));
  CHECK_THAT(last_words(read), StartsWith("worker 2 (rank 1 of plan 5): the epoch is over: "));
  dump.plan = 0;  // as of one that waits outside
  const RankDump outside = dump_from_json(to_json(dump)).value();
  CHECK(outside.plan == 0);
  CHECK(outside.who() == "worker 2");
  dump.workers.pop_back();
  CHECK_THAT(dump_from_json(to_json(dump)).status().sentence(), Contains("it names 2 workers for 3 ranks"));
}

TEST_CASE("a rank with nothing in flight is told by its last three operations, the last first") {
  RankDump dump = example();
  dump.operations.clear();
  for (const char* name : {"a", "b", "c", "d"}) {
    DumpedOp& op = dump.operations.emplace_back();
    op.kind = "allreduce";
    op.name = name;
    op.state = OpState::kFinished;
    op.when.fill(dump.taken - 2);
  }
  CHECK(now_doing(dump) ==
        "has nothing in flight; its last was allreduce \"d\", finished 2.000 s ago, after allreduce \"c\", finished "
        "2.000 "
        "s ago, after allreduce \"b\", finished 2.000 s ago; it says: train.py:31 in step");
}

TEST_CASE("the last words name the oldest operation that an error found unfinished, and how far it had come") {
  RankDump dump = example();
  CHECK_THAT(last_words(dump),
             Contains("2 operations had not finished, the oldest: allreduce") && Contains("ago, enqueued"));
  dump.operations.erase(dump.operations.begin());
  CHECK_THAT(last_words(dump),
             Contains("1 operation had not finished, the oldest: barrier") && Contains("ago, agreed"));
  dump.operations.clear();
  CHECK_THAT(last_words(dump), Contains("nothing was in flight"));
}

}  // namespace rueda::core
