// The pure parts of a timeline by themselves: what a rank keeps in memory, and what ranks still have to tell each
// other.
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/teams.h"
#include "runtime/engine/timeline_protocol.h"
#include "runtime/engine/timeline_recorder.h"

namespace rueda::test {
namespace {

using namespace core;
using std::chrono::milliseconds;

constexpr SteadyClock::time_point kMoment{milliseconds(1000)};

BatchRecord record_of(uint64_t number, std::string_view name = "w") {
  BatchRecord record;
  record.number = number;
  record.algorithm = "shm_one_shot";
  record.first = name;
  record.tensors = 1;
  return record;
}

std::vector<TimelineRecord> records_in(const std::vector<std::byte>& bytes) {
  std::vector<TimelineRecord> records;
  CHECK(read_records(bytes, milliseconds(0), [&](const TimelineRecord& record) { records.push_back(record); }));
  return records;
}

TEST_CASE("a batch that was agreed in a recording belongs to it until it has ended") {
  Batch batch;
  batch.team = std::make_shared<TeamState>();
  batch.number = 7;
  TimelineRecorder recorder;
  recorder.begin();
  CHECK(recorder.all_closed());
  recorder.agreed(batch);
  CHECK_FALSE(recorder.all_closed());
  CHECK(recorder.close(batch));
  CHECK(recorder.all_closed());
  CHECK_FALSE(recorder.close(batch));
}

TEST_CASE("a process set is named once, before its first record") {
  Batch batch;
  batch.team = std::make_shared<TeamState>();
  batch.team->of = " of process set \"trio\" (ranks 0-2)";
  batch.set = 3;
  TimelineRecorder recorder;
  recorder.begin();
  recorder.mark_rounds(true);
  for (batch.number = 0; batch.number < 2; ++batch.number) recorder.agreed(batch);
  const std::vector<std::byte> bytes = recorder.take();
  const std::vector<TimelineRecord> records = records_in(bytes);
  REQUIRE(records.size() == 3);
  CHECK(std::holds_alternative<RoundRecord>(records[0]));
  REQUIRE(std::holds_alternative<SetRecord>(records[1]));
  CHECK(std::get<SetRecord>(records[1]).set == 3);
  CHECK(std::holds_alternative<RoundRecord>(records[2]));
}

TEST_CASE("records beyond the limit are dropped, and their number comes before the next one that fits") {
  TimelineRecorder recorder;
  const std::string name(kMaxTimelineNameBytes, 'n');
  uint64_t kept = 0;
  while (recorder.bytes() <= TimelineRecorder::kMostBytes) recorder.ended(record_of(kept++, name));
  CHECK(recorder.full());
  for (uint64_t i = 0; i < 5; ++i) recorder.ended(record_of(kept + i, name));
  recorder.lose(2);
  CHECK(records_in(recorder.take()).size() == kept);
  recorder.ended(record_of(99));
  const std::vector<std::byte> bytes = recorder.take();
  const std::vector<TimelineRecord> records = records_in(bytes);
  REQUIRE(records.size() == 2);
  REQUIRE(std::holds_alternative<LostRecord>(records[0]));
  CHECK(std::get<LostRecord>(records[0]).records == 5 + 2);
  REQUIRE(std::holds_alternative<BatchRecord>(records[1]));
  CHECK(std::get<BatchRecord>(records[1]).number == 99);
}

TEST_CASE("what was cleared is neither handed out nor counted as lost") {
  TimelineRecorder recorder;
  recorder.ended(record_of(1));
  recorder.lose(3);
  recorder.clear();
  CHECK(recorder.bytes() == 0);
  recorder.ended(record_of(2));
  CHECK(records_in(recorder.take()).size() == 1);
}

TEST_CASE("a piece waits for rank 0's time, and the last piece waits for nothing") {
  TimelineProtocol protocol(3, false);
  protocol.want_piece();
  CHECK(protocol.due());
  CHECK_FALSE(protocol.take_piece());
  CHECK(protocol.piece_wanted());
  SECTION("the time comes") {
    protocol.time_told({kMoment, kMoment + milliseconds(41)}, kMoment + milliseconds(2));
    const std::optional<TimelinePiece> piece = protocol.take_piece();
    REQUIRE(piece);
    CHECK_FALSE(piece->last);
    CHECK(piece->shift == milliseconds(40));
    CHECK_FALSE(protocol.take_piece());
  }
  SECTION("it is the last") {
    protocol.want_last_piece();
    const std::optional<TimelinePiece> piece = protocol.take_piece();
    REQUIRE(piece);
    CHECK(piece->last);
    CHECK(piece->shift == milliseconds(0));
    CHECK_FALSE(protocol.last_wanted());
  }
}

TEST_CASE("a recording begins with eight questions for the time, and each answer brings the next") {
  TimelineProtocol protocol(2, false);
  protocol.begin_asking();
  int asked = 0;
  while (protocol.take_time_wanted()) {
    ++asked;
    protocol.time_told({kMoment, kMoment}, kMoment);
  }
  CHECK(asked == 8);
  protocol.want_time();
  CHECK(protocol.take_time_wanted());
}

TEST_CASE("a rank that shares rank 0's clock asks for no time and sends at once") {
  TimelineProtocol protocol(2, true);
  protocol.begin_asking();
  CHECK_FALSE(protocol.take_time_wanted());
  protocol.want_piece();
  CHECK(protocol.take_piece());
}

TEST_CASE("rank 0 awaits the last piece of every rank that has not said goodbye") {
  TimelineProtocol protocol(4, true);
  protocol.left(2);
  protocol.await_all();
  protocol.ended(1);
  CHECK_FALSE(protocol.all_ended());
  SECTION("the rank ends") { protocol.ended(3); }
  SECTION("the rank leaves") { protocol.left(3); }
  CHECK(protocol.all_ended());
  protocol.await_all();
  CHECK_FALSE(protocol.all_ended());
}

TEST_CASE("a switch is taken once, and is due until then") {
  TimelineProtocol protocol(2, true);
  CHECK_FALSE(protocol.due());
  protocol.want_switch({true, true});
  CHECK(protocol.due());
  const std::optional<TimelineSwitch> change = protocol.take_switch();
  REQUIRE(change);
  CHECK(change->record);
  CHECK(change->mark_rounds);
  CHECK_FALSE(protocol.due());
  CHECK_FALSE(protocol.take_switch());
}

}  // namespace
}  // namespace rueda::test
