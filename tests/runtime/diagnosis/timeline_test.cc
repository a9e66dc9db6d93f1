#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/diagnosis/timeline_writer.h"
#include "tests/support/scale.h"
#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Json = nlohmann::ordered_json;
using test::text_of;

constexpr int64_t kSmallFile = 256 * 4096;

SteadyClock::time_point at(std::chrono::nanoseconds time) { return SteadyClock::time_point(1000s + time); }

NegotiatedRecord negotiated(std::string_view name) { return {name, OpKind::kAllreduce, 3, 400, 7, at(1ms), at(2ms)}; }

BatchRecord batch() {
  BatchRecord record;
  record.set = 3;
  record.number = 7;
  record.algorithm = "ring";
  record.first = "w0";
  record.tensors = 12;
  record.bytes = 4800;
  record.agreed = at(2ms);
  record.begun = at(3ms);
  record.ended = at(9ms);
  record.phases[static_cast<size_t>(WorkPhase::kPack)] = {at(3ms), at(5ms), 1500us};
  record.phases[static_cast<size_t>(WorkPhase::kWait)] = {at(4ms), at(8ms), 3ms};
  return record;
}

std::vector<std::byte> bytes_of(const auto&... records) {
  WireWriter writer;
  (put(writer, records), ...);
  return writer.take();
}

Json events_of(TimelineJson& json) {
  const std::string text(json.text());
  json.clear();
  REQUIRE(text.ends_with(",\n"));
  return Json::parse("[" + text.substr(0, text.size() - 2) + "]");
}

std::vector<TimelineWriter::Rank> two_ranks() { return {{"host a", 10}, {"host \"b\"", 11}}; }

}  // namespace

TEST_CASE("records go through bytes unchanged, with their times moved to another clock") {
  const std::vector<std::byte> bytes =
      bytes_of(negotiated("w1"), batch(), RoundRecord{at(5ms)}, LostRecord{9, at(6ms)}, SetRecord{3, " of set 3"});
  std::vector<TimelineRecord> seen;
  REQUIRE(read_records(bytes, 250ms, [&](const TimelineRecord& record) { seen.push_back(record); }));
  REQUIRE(seen.size() == 5);
  const auto& tensor = std::get<NegotiatedRecord>(seen[0]);
  CHECK(tensor.name == "w1");
  CHECK(tensor.set == 3);
  CHECK(tensor.bytes == 400);
  CHECK(tensor.batch == 7);
  CHECK(tensor.submitted == at(251ms));
  CHECK(tensor.agreed == at(252ms));
  const auto& ran = std::get<BatchRecord>(seen[1]);
  CHECK(ran.algorithm == "ring");
  CHECK(ran.first == "w0");
  CHECK(ran.tensors == 12);
  CHECK(ran.ended == at(259ms));
  CHECK(ran.phases[static_cast<size_t>(WorkPhase::kPack)].busy == 1500us);
  CHECK(ran.phases[static_cast<size_t>(WorkPhase::kWait)].last == at(258ms));
  CHECK(ran.phases[static_cast<size_t>(WorkPhase::kReduce)].first == SteadyClock::time_point{});
  CHECK(std::get<RoundRecord>(seen[2]).when == at(255ms));
  CHECK(std::get<LostRecord>(seen[3]).records == 9);
  CHECK(std::get<SetRecord>(seen[4]).set == 3);
  CHECK(std::get<SetRecord>(seen[4]).words == " of set 3");
}

TEST_CASE("bytes that are no records are refused, whatever they are") {
  const std::vector<std::byte> one = bytes_of(batch());
  for (size_t length = 1; length < one.size(); ++length) {
    INFO("the first " << length << " bytes");
    CHECK_FALSE(read_records(std::span(one).first(length), 0s, [](const TimelineRecord&) {}));
  }
  for (size_t bit = 0; bit < 8 * one.size(); ++bit) {
    std::vector<std::byte> flipped = one;
    flipped[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    static_cast<void>(read_records(flipped, 0s, [](const TimelineRecord&) {}));
  }
}

TEST_CASE("a tensor is a span on a thread of its own, and that of rank 0 shows when others came") {
  TimelineJson json;
  json.add(1, negotiated("w1"));
  const Json events = events_of(json);
  REQUIRE(events.size() == 6);
  for (const size_t rank : {1u, 0u}) {  // their threads' names and places
    const Json& named = events[rank == 1 ? 0 : 2];
    CHECK(named.at("name") == "thread_name");
    CHECK(named.at("pid") == rank);
    CHECK(named.at("args").at("name") == "w1");
    CHECK(named.at("args").at("op") == "allreduce");
    CHECK(named.at("args").at("set") == 3);
  }
  CHECK(events[4].at("ph") == "X");
  CHECK(events[4].at("pid") == 1);
  CHECK(events[4].at("name") == "negotiate allreduce");
  CHECK(events[4].at("ts") == 1000001000.0);
  CHECK(events[4].at("dur") == 1000.0);
  CHECK(events[4].at("args").at("batch") == 7);
  CHECK(events[4].at("args").at("bytes") == 400);
  CHECK(events[5].at("ph") == "i");
  CHECK(events[5].at("pid") == 0);
  CHECK(events[5].at("name") == "rank 1");
  CHECK(events[5].at("ts") == 1000001000.0);
  for (const Json& event : events) CHECK(event.at("tid") == events[0].at("tid"));
  json.add(1, NegotiatedRecord{"w1", OpKind::kAllreduce, 3, 400, 8, at(2ms), at(3ms)});
  CHECK(events_of(json).size() == 2);  // it has its names
}

TEST_CASE("negotiations without a name, and those of one name at once, are spans with an id of their own") {
  TimelineJson json;
  const auto async = [&](int rank, const NegotiatedRecord& record) {
    json.add(rank, record);
    const Json events = events_of(json);
    const Json& begin = events.at(0);
    const Json& end = events.at(1);
    CHECK(begin.at("ph") == "b");
    CHECK(end.at("ph") == "e");
    CHECK(begin.at("cat") == "negotiate");
    CHECK(begin.at("name") == (record.name.empty() ? "allreduce" : record.name));
    CHECK(begin.at("args").at("set") == 3);
    CHECK(begin.at("args").at("op") == "allreduce");
    CHECK(begin.at("args").at("batch") == 7);
    CHECK(end.at("ts") == 1000002000.0);
    CHECK(end.at("id") == begin.at("id"));
    if (rank != 0) CHECK(events.at(2).at("name") == "rank " + std::to_string(rank));
    return begin.at("id");
  };
  const auto first = async(1, negotiated(""));
  CHECK(async(0, negotiated("")) != first);
  json.add(0, negotiated("w"));
  CHECK(events_of(json).back().at("ph") == "X");
  async(0, negotiated("w"));
}

TEST_CASE("tensors of one name that differ in set or kind, and names by the thousand, are not mixed up") {
  TimelineJson json;
  NegotiatedRecord record = negotiated("w");
  std::string name;
  const auto thread = [&](int rank) {
    record.submitted = record.agreed;
    json.add(rank, record);
    const Json events = events_of(json);
    const Json& span = *std::find_if(events.begin(), events.end(), [](const Json& one) { return one.at("ph") == "X"; });
    CHECK(span.at("pid") == rank);
    return span.at("tid");
  };
  for (int turn = 0; turn < 2; ++turn) {
    record = negotiated("w");
    const auto first = thread(0);
    CHECK(thread(1) == first);
    record.set = 4;
    CHECK(thread(0) != first);
    record.kind = OpKind::kBroadcast;
    CHECK(thread(0) != first);
    for (int number = 0; number < 20'000; ++number) {  // more than have a thread
      record.name = name = "layer." + std::to_string(number);
      json.add(1, record);
      if (number < 19'999) json.clear();
    }
    CHECK_THAT(std::string(json.text()), Contains("\"layer.19999\",\"cat\":\"negotiate\""));
    json.clear();
  }
}

TEST_CASE("in an elastic job a process is named by worker, rank and plan") {
  TimelineJson json;
  json.name_rank(1, {"host a", 11});
  json.name_rank(1, {"host a", 11, 2, 5});
  const Json events = events_of(json);
  CHECK(events.at(0).at("args") == Json{{"name", "rank 1 (host a, pid 11)"}});
  CHECK(events.at(2).at("args") ==
        Json{{"name", "worker 2 (rank 1 of plan 5) (host a, pid 11)"}, {"worker", 2}, {"plan", 5}});
}

TEST_CASE("a batch is a span for its queue, its algorithm and each phase that ran") {
  TimelineJson json;
  json.add(0, batch());
  const Json events = events_of(json);
  REQUIRE(events.size() == 5);
  CHECK(events[0].at("name") == "queue");
  CHECK(events[1].at("ts") == 1000003000.0);
  CHECK(events[2].at("name") == "ring");
  CHECK(events[2].at("dur") == 6000.0);
  CHECK(events[2].at("args").at("tensors") == 12);
  CHECK(events[2].at("args").at("first") == "w0");
  CHECK(events[3].at("name") == "pack");
  CHECK(events[3].at("args").at("busy_us") == 1500.0);
  CHECK(events[4].at("name") == "wait");
  CHECK(events[3].at("tid") != events[4].at("tid"));
}

TEST_CASE("a timeline's names may hold quotes, backslashes, line ends, half letters and be long") {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += "\u00e4\"\\\n";
  for (const std::string& name : {std::string("he said \"no\""), std::string("a\\b\nc\td\x01\x7f"), bytes,
                                  bytes.substr(1), std::string(5000, '"')}) {
    TimelineJson json;
    const std::vector<std::byte> record = bytes_of(negotiated(name));
    REQUIRE(read_records(record, 0s, [&](const TimelineRecord& one) { json.add(0, one); }));
    const std::string text(json.text());
    for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
      CHECK(end + 1 - begin <= TimelineJson::kMaxEventBytes);
    }
    const Json events = Json::parse("[" + text.substr(0, text.size() - 2) + "]");
    const auto shown = events[0].at("args").at("name").get<std::string>();
    CHECK(name.ends_with(shown));
    CHECK(shown.size() >= std::min<size_t>(name.size(), kMaxTimelineNameBytes - 1));
  }
}

TEST_CASE("a timeline's file is a JSON array after every write, also while it grows, and holds no waste in the end") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  size_t added = 0;
  {
    Result<std::unique_ptr<TimelineWriter>> writer = TimelineWriter::open(path, two_ranks(), kSmallFile);
    REQUIRE(writer.ok());
    CHECK(Json::parse(text_of(path)).size() == 1);
    for (int round = 0; round < 24; ++round) {
      WireWriter records;
      for (int i = 0; i < 200; ++i)
        put(records, negotiated("tensor." + std::to_string(round) + "." + std::to_string(i)));
      put(records, batch());
      REQUIRE(writer.value()->add(round % 2, records.take(), 0s).ok());
      added += round % 2 == 0 ? 200 + 5 : 2 * 200 + 5;
      if (round % 8 != 0) continue;
      size_t events = 0;
      for (const Json& event : Json::parse(text_of(path))) events += event.at("ph") != "M";
      REQUIRE(events == added);
    }
  }
  const std::string text = text_of(path);
  size_t events = 0;
  for (const Json& event : Json::parse(text)) events += event.at("ph") != "M";
  CHECK(events == added);
  CHECK(text.size() > static_cast<size_t>(kSmallFile));  // it grew
  CHECK(text.find(std::string(8192, ' ')) == std::string::npos);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.file(".")), {}) == 1);
}

TEST_CASE("a timeline's file is a JSON array whenever its process is killed") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto pieces = static_cast<uint64_t>(scaled_down(600));
  for (int round = 0; round < 10; round += kThorough ? 1 : 4) {
    int told[2];
    REQUIRE(::pipe(told) == 0);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      auto writer = TimelineWriter::open(path, two_ranks(), kSmallFile);
      WireWriter records;
      for (int i = 0; i < 10; ++i) put(records, negotiated("tensor " + std::to_string(i)));
      const std::vector<std::byte> some = records.take();
      for (uint64_t i = 0; i < pieces; ++i) {
        if (!writer.ok() || !writer.value()->add(1, some, 0s).ok()) ::_exit(1);
        if (i == static_cast<uint64_t>(round) * pieces / 20 && ::write(told[1], "x", 1) != 1) ::_exit(1);
      }
      ::pause();
    }
    ::close(told[1]);
    char byte = 0;
    REQUIRE(::read(told[0], &byte, 1) == 1);
    REQUIRE(::kill(child, SIGKILL) == 0);
    int how = 0;
    REQUIRE(::waitpid(child, &how, 0) == child);
    CHECK(WIFSIGNALED(how));
    ::close(told[0]);
    const Json events = Json::parse(text_of(path));
    CHECK(events.size() > 20);
  }
}

TEST_CASE("a timeline goes where a link leads, and takes no device or pipe away") {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink("far.json", folder.file("link.json"));
  std::ofstream(folder.file("far.json")) << "old";
  REQUIRE(TimelineWriter::open(folder.file("link.json"), two_ranks()).ok());
  CHECK(std::filesystem::is_symlink(folder.file("link.json")));
  CHECK(Json::parse(text_of(folder.file("far.json"))).size() == 1);
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder.file("pipe"), folder.file(".")}) {
    const auto writer = TimelineWriter::open(path, two_ranks());
    REQUIRE_FALSE(writer.ok());
    CHECK(writer.status().sentence() ==
          "the timeline " + path + " cannot be made: this name belongs to something that is not a regular file");
  }
  CHECK(std::filesystem::is_fifo(folder.file("pipe")));
}

TEST_CASE("links that lie where a timeline writes lose nothing of what they lead to") {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("precious")) << "kept";
  std::filesystem::create_symlink("precious", folder.file("t.json.part"));
  REQUIRE(TimelineWriter::open(folder.file("t.json"), two_ranks()).ok());
  CHECK(text_of(folder.file("precious")) == "kept");
  std::filesystem::create_symlink("precious", folder.file("planted"));
  if (::lchown(folder.file("planted").c_str(), 54321, 54321) != 0) return;  // it needs root
  const auto refused = TimelineWriter::open(folder.file("planted"), two_ranks());
  REQUIRE_FALSE(refused.ok());
  CHECK_THAT(refused.status().sentence(), Contains("this name is a symbolic link of user 54321"));
  CHECK(text_of(folder.file("precious")) == "kept");
}

TEST_CASE("an event that fits into no page is left out, and the words of a set always fit") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  {
    auto file = TimelineFile::create(path, kSmallFile).value();
    const std::string event = "{\"name\":\"a\"},\n";
    REQUIRE(file->append("{\"name\":\"" + std::string(5000, 'x') + "\"},\n" + event).ok());
    REQUIRE(file->append(event).ok());
  }
  CHECK(Json::parse(text_of(path)).size() == 3);
  auto writer = TimelineWriter::open(path, two_ranks(), kSmallFile).value();
  WireWriter records;
  put(records, SetRecord{7, std::string(1000, '\x01')});
  put(records, SetRecord{8, " of process set \"" + std::string(1000, 'n') + "\""});
  REQUIRE(writer->add(1, records.take(), 0s).ok());
  std::set<std::string> named;
  for (const Json& event : Json::parse(text_of(path))) {
    if (event.at("name") == "thread_name") named.insert(event.at("args").at("name").get<std::string>());
  }
  CHECK(named.count("batch" + std::string(397, '\x01') + "...") == 1);
  CHECK(named.size() == 2 * (2 + kPhases));
}

TEST_CASE("a timeline that cannot be made is an error that names the file") {
  const auto writer = TimelineWriter::open("/no/such/folder/t.json", two_ranks());
  REQUIRE_FALSE(writer.ok());
  CHECK(writer.status().code() == Code::kSystem);
  CHECK_THAT(writer.status().sentence(), Contains("/no/such/folder/t.json"));
}

TEST_CASE("phases add up over their pieces, from the first to the last, and are not counted inside each other") {
  PhaseLog log;
  const auto before = SteadyClock::now();
  log.start();
  { const PhaseScope nowhere(nullptr, WorkPhase::kPack); }
  std::chrono::nanoseconds inside_unpack{0};
  for (int i = 0; i < 3; ++i) {
    {
      const PhaseScope unpacking(&log, WorkPhase::kUnpack);
      const PhaseScope inside(&log, WorkPhase::kReduce);
      const auto begun = SteadyClock::now();
      while (SteadyClock::now() - begun < 2ms) {
      }
      inside_unpack += SteadyClock::now() - begun;
    }
    const PhaseScope waiting(&log, WorkPhase::kWait);
    const auto begun = SteadyClock::now();
    while (SteadyClock::now() - begun < 1ms) {
    }
  }
  const PhaseExtents extents = log.extents();
  const auto after = SteadyClock::now();
  const PhaseExtent& unpack = extents[static_cast<size_t>(WorkPhase::kUnpack)];
  CHECK(unpack.first >= before);
  CHECK(unpack.last <= after);
  CHECK(unpack.busy <= unpack.last - unpack.first);
  CHECK(unpack.last - unpack.first - unpack.busy >= 1900us);  // two waits between its pieces
  CHECK(unpack.busy >= inside_unpack - 100us);
  CHECK(extents[static_cast<size_t>(WorkPhase::kReduce)].first == SteadyClock::time_point{});
  CHECK(extents[static_cast<size_t>(WorkPhase::kPack)].first == SteadyClock::time_point{});
}

}  // namespace rueda::core
