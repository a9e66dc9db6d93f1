// A timeline of real operations: started, stopped, written by one rank or by all.
#include <signal.h>

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Json = nlohmann::ordered_json;

Json parsed(const std::string& path) { return Json::parse(text_of(path)); }

/// What is said of one tensor, by rank.
struct Negotiation {
  std::map<int, double> submitted;
  std::map<int, double> agreed;
};

std::map<std::string, Negotiation> negotiations(const Json& events) {
  std::map<std::pair<int, int>, std::string> tensors;  // by rank and thread
  std::map<std::string, Negotiation> found;
  for (const Json& event : events) {
    const auto thread = [&] { return std::pair<int, int>(event.at("pid"), event.at("tid")); };
    if (event.at("name") == "thread_name" && event.at("args").contains("set")) {
      tensors[thread()] = event.at("args").at("name");
    }
    if (event.at("ph") != "X" || tensors.count(thread()) == 0) continue;
    Negotiation& one = found[tensors.at(thread())];
    const double begin = event.at("ts"), length = event.at("dur");
    one.submitted[event.at("pid")] = begin;
    one.agreed[event.at("pid")] = begin + length;
  }
  return found;
}

std::set<std::pair<int, std::string>> names_of(const Json& events, const std::string& kind) {
  std::set<std::pair<int, std::string>> found;
  for (const Json& event : events) {
    if (event.at("ph") == kind) found.emplace(event.at("pid").get<int>(), event.at("name").get<std::string>());
  }
  return found;
}

int32_t start(rueda_session* session, const std::string& path, int32_t mark_cycles = 0) {
  return rueda_start_timeline(session, path.c_str(), mark_cycles);
}

}  // namespace

TEST_CASE("a timeline of all ranks shows each tensor and batch of each rank on one clock") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  run_ranks(3, [&](rueda_session* session, int rank) {
    std::vector<float> values(100000, 1);
    expect_code(sum(session, values, "before"), RUEDA_OK, "before");
    expect_code(start(session, path, 1), RUEDA_OK, "start");
    expect_code(sum(session, values, "meet"), RUEDA_OK, "meet");  // all record by the next one
    for (int i = 0; i < 20; ++i) {
      expect_code(sum(session, values, ("a \"quoted\" name " + std::to_string(i)).c_str()), RUEDA_OK, "sum");
    }
    expect_usable(session, "all are through");
    if (rank == 0) expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
    expect_usable(session, "after");
  });
  const Json events = parsed(path);
  const auto tensors = negotiations(events);
  CHECK(tensors.count("before") == 0);
  CHECK(tensors.count("after") == 0);
  for (int i = 0; i < 20; ++i) {
    const std::string name = "a \"quoted\" name " + std::to_string(i);
    INFO(name);
    REQUIRE(tensors.count(name) == 1);
    const Negotiation& one = tensors.at(name);
    REQUIRE(one.submitted.size() == 3);
    REQUIRE(one.agreed.size() == 3);
    // Nobody hears of agreement before the last has submitted: so it is one clock.
    for (const auto& [rank, agreed] : one.agreed) {
      for (const auto& [other, submitted] : one.submitted) CHECK(agreed - submitted > -0.01);  // in decimals
    }
  }
  const auto spans = names_of(events, "X");
  for (int rank = 0; rank < 3; ++rank) {
    for (const char* name : {"pack", "reduce", "unpack", "shm_two_shot"}) {
      INFO("rank " << rank << ": " << name);
      CHECK(spans.count({rank, name}) == 1);
    }
  }
  CHECK(names_of(events, "i").count({0, "rank 1"}) == 1);
  CHECK(names_of(events, "i").count({0, "round"}) == 1);
}

TEST_CASE("a timeline shows what an operation that only moves rows does beside waiting") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  run_ranks(3, [&](rueda_session* session, int rank) {
    std::vector<float> rows(50000, 1);
    std::vector<float> all(3 * rows.size());
    const CTensor input(rows, RUEDA_F32);
    const CTensor output(all, RUEDA_F32);
    expect_code(start(session, path, 0), RUEDA_OK, "start");
    expect_usable(session, "meet");  // all record by the next one
    for (int i = 0; i < 3; ++i) {
      expect_code(rueda_allgather(session, input.get(), output.get(), nullptr), RUEDA_OK, "all-gather");
    }
    expect_usable(session, "all are through");
    if (rank == 0) expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
  });
  const auto spans = names_of(parsed(path), "X");
  for (int rank = 0; rank < 3; ++rank) {
    for (const char* name : {"pack", "unpack", "shm_allgather"}) {
      INFO("rank " << rank << ": " << name);
      CHECK(spans.count({rank, name}) == 1);
    }
  }
}

TEST_CASE("a timeline tells what goes between hosts from what goes on inside one, and of which process set it is") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const std::vector<std::string> hosts = {"a", "a", "b", "b"};
  run_ranks(hosts, [&](rueda_session* session, int rank) {
    expect_code(start(session, path, 0), RUEDA_OK, "start");
    expect_usable(session, "meet");
    if (rank != 3) {
      const std::vector<int32_t> members = {0, 1, 2};
      rueda_op_options options = named("w");
      expect_code(rueda_process_set_add(session, 3, members.data(), "three", &options.process_set), RUEDA_OK, "a set");
      std::vector<float> values(200'000, 1);
      const CTensor tensor(values, RUEDA_F32);
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_OK, "sum");
    }
    expect_usable(session, "all are through");
    if (rank == 0) expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
  });
  const Json events = parsed(path);
  std::set<std::pair<int, std::string>> tracks;
  for (const Json& event : events) {
    if (event.at("name") == "thread_name") tracks.emplace(event.at("pid"), event.at("args").at("name"));
  }
  const auto spans = names_of(events, "X");
  for (int rank = 0; rank < 3; ++rank) {
    INFO("rank " << rank);
    CHECK(spans.count({rank, "hierarchical"}) == 1);
    CHECK(spans.count({rank, "transfer"}) == 1);
    CHECK(tracks.count({rank, "transfer of process set \"three\" (ranks 0-2)"}) == 1);
  }
  CHECK(tracks.count({3, "transfer"}) == 1);
}

TEST_CASE("a timeline can be started again, once at a time, and where its file can be made") {
  const TemporaryFolder folder;
  run_ranks(2, [&](rueda_session* session, int rank) {
    expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop without a start");
    expect_code(rueda_start_timeline(session, nullptr, 0), RUEDA_INVALID_ARGUMENT, "no path");
    expect_code(rueda_start_timeline(session, "", 0), RUEDA_INVALID_ARGUMENT, "an empty path");
    expect_code(start(session, folder.file("no/such/folder/{rank}")), RUEDA_SYSTEM, "a path to nowhere");
    for (const char* name : {"one", "two"}) {
      const std::string path = folder.file(std::string(name) + ".{rank}.json");
      expect_code(start(session, path), RUEDA_OK, "start");
      expect_code(start(session, path), RUEDA_INVALID_ARGUMENT, "start twice");
      expect_usable(session, name);
      expect_code(rueda_stop_timeline(session), RUEDA_OK, "stop");
      expect(
          negotiations(parsed(folder.file(std::string(name) + "." + std::to_string(rank) + ".json"))).count(name) == 1,
          "the operation is not in its timeline");
    }
    expect_usable(session, "after");
  });
}

TEST_CASE("a shutdown ends the timeline with what there was") {
  const TemporaryFolder folder;
  run_ranks(2, [&](rueda_session* session, int) {
    expect_code(start(session, folder.file("t.json")), RUEDA_OK, "start");
    expect_usable(session, "meet");
    expect_usable(session, "last");
  });
  CHECK(negotiations(parsed(folder.file("t.json"))).at("last").agreed.count(0) == 1);
}

TEST_CASE("rank: reduces until it is killed", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(1000);
  // Records reach the file by the piece: rank 0 says when a negotiation of each rank has, after the name of its thread.
  const auto in_file = [&] {
    if (rueda_rank(session) != 0) return true;
    const std::string text = text_of(std::getenv("RUEDA_TIMELINE"));
    const auto has = [&](int rank) {
      const std::string of_rank = "\"pid\":" + std::to_string(rank) + ",\"tid\":";
      for (size_t at = 0; (at = text.find(R"({"name":"w7")", at)) != std::string::npos; ++at) {
        const size_t line =
            text.rfind(R"({"ph":)", at);  // spaces may stand before it, as each page begins with an event
        const std::string named = R"({"ph":"M",)" + of_rank;
        if (text.compare(line, named.size(), named) != 0) continue;
        const size_t thread = line + named.size();
        const std::string span = R"({"ph":"X",)" + of_rank + text.substr(thread, text.find(',', thread) - thread) + ',';
        return text.find("}},\n", text.find(span, at)) != std::string::npos;
      }
      return false;
    };
    return has(0) && has(1);
  };
  bool told = false;
  for (int i = 0; sum(session, values, ("w" + std::to_string(i % 50)).c_str()) == RUEDA_OK; ++i) {
    if (told || i % 100 != 99 || !in_file()) continue;
    rank_report("busy");
    told = true;
  }
  rueda_shutdown(session);
}

TEST_CASE("the timeline of ranks that are killed is whole, and rank 0 goes on with its own when another dies") {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  for (const int victim : {0, 1}) {
    RankProcesses ranks(
        {.size = 2, .body = "rank: reduces until it is killed", .variables = {{"RUEDA_TIMELINE", path}}});
    for (int rank = 0; rank < 2; ++rank) static_cast<void>(ranks.await(rank, "busy"));
    ranks.signal(victim, SIGKILL);
    static_cast<void>(ranks.finish());
    const Json events = parsed(path);
    const auto tensors = negotiations(events);
    REQUIRE(tensors.count("w7") == 1);
    CHECK(tensors.at("w7").agreed.size() == 2);
  }
}

}  // namespace rueda::test
