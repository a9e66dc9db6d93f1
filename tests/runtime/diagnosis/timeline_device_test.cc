// What a device did in a batch, as records and as events of a timeline.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/diagnosis/timeline_json.h"

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Event = nlohmann::ordered_json;

SteadyClock::time_point second(std::chrono::nanoseconds time) { return SteadyClock::time_point(1s + time); }

/// A batch of set 3 that a device ran from 5 to 11 ms, with a gap.
std::vector<std::byte> batch_on_device() {
  BatchRecord record;
  record.set = 3;
  record.algorithm = "nccl";
  record.agreed = record.begun = second(1ms);
  record.ended = second(12ms);
  record.device[static_cast<size_t>(DevicePhase::kExchange)] = {second(5ms), second(11ms), 4ms};
  WireWriter writer;
  put(writer, record);
  return writer.take();
}

}  // namespace

TEST_CASE("what a device did goes through bytes unchanged, and gets tracks of its own, which are named once") {
  const std::vector<std::byte> bytes = batch_on_device();
  TimelineJson json;
  json.name_tracks(1, 3, " of set 3");
  json.clear();
  for (int i = 0; i < 2; ++i) {
    REQUIRE(read_records(bytes, 250ms, [&](const TimelineRecord& record) { json.add(1, record); }));
  }
  const std::string text(json.text());
  std::vector<Event> spans;
  std::vector<Event> names;
  for (const Event& event : Event::parse("[" + text.substr(0, text.size() - 2) + "]")) {
    if (event.at("name") == "device exchange") spans.push_back(event);
    if (event.at("name") == "thread_name") names.push_back(event);
  }
  REQUIRE((spans.size() == 2 && names.size() == 1));
  CHECK(names.front().at("args").at("name") == "device exchange of set 3");
  CHECK(names.front().at("tid") == spans.front().at("tid"));
  CHECK(spans.front().at("ts") == 1255000.0);
  CHECK(spans.front().at("dur") == 6000.0);
  CHECK(spans.front().at("args").at("busy_us") == 4000.0);
}

TEST_CASE("a part of the bytes of a batch on a device is refused") {
  const std::vector<std::byte> one = batch_on_device();
  for (size_t length = 1; length < one.size(); ++length) {
    INFO("the first " << length << " bytes");
    CHECK_FALSE(read_records(std::span(one).first(length), 0s, [](const TimelineRecord&) {}));
  }
}

}  // namespace rueda::core
