#include "runtime/diagnosis/flight_recorder.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

namespace rueda::core {
namespace {

constexpr SteadyClock::time_point kNow{std::chrono::seconds(5)};

OpFacts facts_of(std::string_view name) { return {name, 0, OpKind::kAllreduce, Dtype::kF32, 10, 40}; }

void reach(FlightRecorder& recorder, FlightRecorder::Id id, OpState state) {
  const std::vector<FlightRecorder::Id> ids = {id};
  recorder.update(
      ids, [](FlightRecorder::Id each) { return each; },
      [state](OpRecord& record, FlightRecorder::Id) { record.reach(state, kNow); });
}

std::vector<std::string> names(const FlightRecorder& recorder) {
  std::vector<std::string> found;
  for (const OpRecord& record : recorder.records()) found.emplace_back(record.name());
  return found;
}

}  // namespace

TEST_CASE("a flight recorder remembers what an operation is and when it reached which state") {
  FlightRecorder recorder;
  const auto id = recorder.begin({"w", 3, OpKind::kBroadcast, Dtype::kF64, 7, 56}, kNow);
  reach(recorder, id, OpState::kProposed);
  const OpRecord record = recorder.records().at(0);
  CHECK(record.number == 1);
  CHECK(record.name() == "w");
  CHECK(record.set == 3);
  CHECK(record.kind == OpKind::kBroadcast);
  CHECK(record.dtype == Dtype::kF64);
  CHECK(record.count == 7);
  CHECK(record.bytes == 56);
  CHECK(record.state == OpState::kProposed);
  CHECK(record.when[0] == kNow);
  CHECK(record.when[static_cast<size_t>(OpState::kProposed)] == kNow);
  CHECK(record.when[static_cast<size_t>(OpState::kAgreed)] == SteadyClock::time_point{});
}

TEST_CASE("a long name keeps its end, which tells tensors apart") {
  FlightRecorder recorder;
  const std::string name = std::string(200, 'x') + ".weight";
  static_cast<void>(recorder.begin(facts_of(name), kNow));
  CHECK(recorder.records().at(0).name() == name.substr(name.size() - OpRecord::kNameBytes));
}

TEST_CASE("a new operation takes the place of the oldest that is over, in memory taken once") {
  FlightRecorder recorder(4);
  const size_t bytes = recorder.bytes();
  std::vector<FlightRecorder::Id> ids;
  for (const char* name : {"a", "b", "c", "d"}) ids.push_back(recorder.begin(facts_of(name), kNow));
  for (const size_t index : {0u, 2u, 3u}) reach(recorder, ids[index], OpState::kFinished);
  for (const char* name : {"e", "f"}) static_cast<void>(recorder.begin(facts_of(name), kNow));
  CHECK(names(recorder) == std::vector<std::string>{"b", "d", "e", "f"});
  CHECK(recorder.bytes() == bytes);
}

TEST_CASE("operations in flight keep their records where there are more than places, and give the memory back") {
  FlightRecorder recorder(3);
  const size_t bytes = recorder.bytes();
  std::vector<FlightRecorder::Id> ids;
  for (const char* name : {"a", "b", "c", "d", "e"}) ids.push_back(recorder.begin(facts_of(name), kNow));
  CHECK(names(recorder) == std::vector<std::string>{"a", "b", "c", "d", "e"});
  CHECK(recorder.bytes() > bytes);
  reach(recorder, ids[3], OpState::kStarted);
  CHECK(recorder.longest_running()->first.name() == "d");
  reach(recorder, ids[3], OpState::kFinished);  // no place is free
  CHECK(names(recorder) == std::vector<std::string>{"a", "b", "c", "e"});
  reach(recorder, ids[0], OpState::kFinished);
  CHECK(names(recorder) == std::vector<std::string>{"a", "b", "c", "e"});
  reach(recorder, ids[4], OpState::kFailed);  // takes the place of what is over
  CHECK(names(recorder) == std::vector<std::string>{"b", "c", "e"});
  CHECK(recorder.records().back().state == OpState::kFailed);
  CHECK(recorder.bytes() == bytes);
  for (const size_t gone : {0u, 3u, 4u}) reach(recorder, ids[gone], OpState::kEnqueued);
  CHECK(names(recorder) == std::vector<std::string>{"b", "c", "e"});
  for (const size_t left : {1u, 2u}) reach(recorder, ids[left], OpState::kFinished);
  for (const char* name : {"f", "g", "h"}) static_cast<void>(recorder.begin(facts_of(name), kNow));
  CHECK(names(recorder) == std::vector<std::string>{"f", "g", "h"});
}

TEST_CASE("an operation that failed and begins all the same holds its place again") {
  FlightRecorder recorder(2);
  std::vector<FlightRecorder::Id> ids;
  for (const char* name : {"a", "b"}) ids.push_back(recorder.begin(facts_of(name), kNow));
  for (const OpState state : {OpState::kFailed, OpState::kStarted}) reach(recorder, ids[0], state);
  static_cast<void>(recorder.begin(facts_of("c"), kNow));
  CHECK(names(recorder) == std::vector<std::string>{"a", "b", "c"});
  reach(recorder, ids[0], OpState::kFinished);
  static_cast<void>(recorder.begin(facts_of("d"), kNow));
  CHECK(names(recorder) == std::vector<std::string>{"b", "c", "d"});
}

TEST_CASE("many threads record at a time and lose no operation in flight") {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  FlightRecorder recorder(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorder, t] {
      static_cast<void>(recorder.begin(facts_of("pending " + std::to_string(t)), kNow));
      for (int i = 0; i < kEach; ++i) {
        const auto id = recorder.begin(facts_of("done"), kNow);
        reach(recorder, id, OpState::kFinished);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  const std::vector<OpRecord> records = recorder.records();
  CHECK(records.size() == 64);
  CHECK(records.back().number == kThreads * (kEach + 1));
  const auto pending =
      std::count_if(records.begin(), records.end(), [](const OpRecord& record) { return !record.over(); });
  CHECK(pending == kThreads);
}

}  // namespace rueda::core
