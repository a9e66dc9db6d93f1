// What a session tells about itself.
#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rueda.hpp"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"
#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/reserved_port.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_stats(rueda_session* session) {
  std::string text;
  for (size_t bytes = 0;; text.resize(bytes)) {  // which may have become more
    expect_code(rueda_stats(session, text.data(), text.size(), &bytes), RUEDA_OK, "asking for the text");
    if (bytes > text.size()) continue;
    text.resize(bytes - 1);
    return text;
  }
}

Json stats_of(rueda_session* session) { return Json::parse(text_of_stats(session)); }

void say(void* context, char* text, size_t capacity) {
  std::snprintf(text, capacity, "%s", static_cast<const char*>(context));
}

/// Takes the process's log lines while it lives.
class LogLines {
 public:
  LogLines() { rueda_set_log_callback(take, this); }
  ~LogLines() { rueda_set_log_callback(nullptr, nullptr); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  std::string text() {
    core::MutexLock lock(mutex_);
    return text_;
  }

 private:
  static void take(void* self, int32_t, const char* line) {
    auto& lines = *static_cast<LogLines*>(self);
    core::MutexLock lock(lines.mutex_);
    lines.text_ += std::string(line) + "\n";
  }
  core::Mutex mutex_;
  std::string text_ RUEDA_GUARDED_BY(mutex_);
};

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

uint16_t bind_any(int fd) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(fd, generic, length) == 0);
  REQUIRE(::getsockname(fd, generic, &length) == 0);
  return ntohs(address.sin_port);
}

/// The whole answer; empty where nobody listens.
std::string get_page(uint16_t port, const std::string& path) {
  const core::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  expect(::send(fd.get(), request.data(), request.size(), 0) == static_cast<ssize_t>(request.size()), "send");
  std::string answer;
  char piece[4096];
  for (ssize_t got = 0; (got = ::recv(fd.get(), piece, sizeof piece, 0)) > 0;)
    answer.append(piece, static_cast<size_t>(got));
  return answer;
}

}  // namespace

TEST_CASE("rank: waits for what rank 1 never submits", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(10);
  expect_usable(session, "first");
  if (rueda_rank(session) == 1) {
    rank_report("up");
    rank_await();  // to be killed
  } else {
    const rueda_handle handle = start_sum(session, values, "never");
    rank_report("up");
    CHECK(finish(handle).code == RUEDA_PEER_LOST);
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("when a rank dies the others put their flight record where the user said, with what was in flight") {
  const TemporaryFolder folder;
  RankProcesses ranks({.size = 3,
                       .body = "rank: waits for what rank 1 never submits",
                       .variables = {{"RUEDA_DUMP_FILE", folder.file("dump-{rank}.json")}}});
  for (int rank = 0; rank < 3; ++rank) ranks.await(rank, "up");
  ranks.signal(1, SIGKILL);
  const std::vector<RankOutcome> outcomes = ranks.finish();
  for (const int rank : {0, 2}) {
    INFO(outcomes[static_cast<size_t>(rank)].output);
    CHECK(outcomes[static_cast<size_t>(rank)].exit_code == 0);
    const Json dump = Json::parse(text_of(folder.file("dump-" + std::to_string(rank) + ".json")));
    CHECK_THAT(dump.at("status").get<std::string>(), Catch::Matchers::Contains("rank 1"));
    CHECK(dump.at("operations").back().at("name") == "never");
    CHECK_FALSE(dump.at("operations").back().contains("batch"));
  }
  CHECK_FALSE(std::filesystem::exists(folder.file("dump-1.json")));
}

TEST_CASE("when a rank dies and no file was named, one line in the log says what had not finished") {
  RankProcesses ranks({.size = 2, .body = "rank: waits for what rank 1 never submits"});
  for (int rank = 0; rank < 2; ++rank) ranks.await(rank, "up");
  ranks.signal(1, SIGKILL);
  CHECK_THAT(
      ranks.finish()[0].output,
      Catch::Matchers::Contains("1 operation had not finished, the oldest: allreduce \"never\" (f32, 10 elements)"));
}

TEST_CASE("stats count tensors, bytes, batches and proposals by id, equal to what was done") {
  constexpr uint64_t kSteps = 20;
  constexpr uint64_t kReduced = 100;
  run_ranks(3, [&](rueda_session* session, int rank) {
    std::vector<float> values(kReduced);
    for (uint64_t step = 0; step < kSteps; ++step) expect_code(sum(session, values, "w"), RUEDA_OK, "sum");
    const Json stats = stats_of(session);
    expect(stats.at("rank") == rank && stats.at("size") == 3, "rank and size");
    expect(stats.at("tensors").at("submitted") == kSteps, "submitted: " + stats.dump());
    expect(stats.at("tensors").at("finished") == kSteps, "finished: " + stats.dump());
    expect(stats.at("tensors").at("failed") == 0, "failed: " + stats.dump());
    expect(stats.at("tensors").at("in_flight") == 0, "in flight: " + stats.dump());
    expect(stats.at("bytes") == kSteps * kReduced * sizeof(float), "bytes: " + stats.dump());
    expect(stats.at("kinds").at("allreduce").at("tensors") == kSteps, "kinds: " + stats.dump());
    expect(stats.at("batches") == kSteps, "batches: " + stats.dump());
    expect(stats.at("fusion_factor") == 1.0, "fusion factor: " + stats.dump());
    expect(stats.at("cache").at("misses") == 1, "the first proposal is in full: " + stats.dump());
    expect(stats.at("cache").at("hits") == kSteps - 1, "the others are by id: " + stats.dump());
    // Who finds its operation done has not waited.
    expect(stats.at("seconds").at("wait").at("calls") <= kSteps, "waits: " + stats.dump());
    expect(stats.at("memory_bytes").at("flight_recorder") > 0, "memory: " + stats.dump());
    const auto outputs = [&] { return stats_of(session).at("memory_bytes").at("outputs").get<uint64_t>(); };
    std::vector<float> rows(1000, 1);
    const CTensor tensor(rows, RUEDA_F32);
    rueda_handle gathered = 0;
    expect_code(rueda_allgather_async(session, tensor.get(), nullptr, nullptr, &gathered), RUEDA_OK, "all-gather");
    expect_code(rueda_wait(gathered, -1), RUEDA_OK, "all-gather");
    expect(outputs() == 3 * 4000, "an output of the library's: " + std::to_string(outputs()));
    expect_code(rueda_release(gathered), RUEDA_OK, "release");
    const core::Deadline deadline = patience();  // the thread that ran it lets go of it in its own time
    while (outputs() != 0 && !deadline.passed()) std::this_thread::yield();
    expect(outputs() == 0, "after its release: " + std::to_string(outputs()));
    uint64_t batches = 0;
    for (const Json& algorithm : stats.at("algorithms")) batches += algorithm.at("batches").get<uint64_t>();
    expect(batches == kSteps, "batches by algorithm: " + stats.dump());
    expect(text_of_stats(session).find("\"shm_") != std::string::npos, "the algorithm has its name");
  });
}

TEST_CASE("a wait that finds its operation unfinished is one more, whether it sees the end or not") {
  std::promise<void> looked;
  std::shared_future<void> go(looked.get_future());
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<float> values(1);
    if (rank == 1) {
      go.wait();
      expect_code(sum(session, values, "late"), RUEDA_OK, "sum");
      return;
    }
    const auto waits = [&] { return stats_of(session).at("seconds").at("wait").at("calls").get<uint64_t>(); };
    const rueda_handle handle = start_sum(session, values, "late");
    const uint64_t before = waits();
    expect_code(rueda_wait(handle, 0.001), RUEDA_TIMEOUT, "nobody else has submitted it");
    expect(waits() == before + 1, "the wait was not counted");
    looked.set_value();
    expect(finish(handle).code == RUEDA_OK, "the sum failed");
  });
}

TEST_CASE("a group that shares a batch has a fusion factor of its size") {
  run_ranks(2, [](rueda_session* session, int) {
    std::vector<std::vector<float>> values(5, std::vector<float>(10));
    std::vector<rueda_tensor> tensors;
    std::vector<std::unique_ptr<CTensor>> owners;
    for (auto& each : values) {
      owners.push_back(std::make_unique<CTensor>(each, RUEDA_F32));
      tensors.push_back(*owners.back()->get());
    }
    const rueda_op_options options = named("g");
    expect_code(
        rueda_grouped_allreduce(session, tensors.size(), tensors.data(), tensors.data(), nullptr, RUEDA_SUM, &options),
        RUEDA_OK, "group");
    const Json stats = stats_of(session);
    expect(stats.at("fusion_factor") == 5.0, "fusion factor: " + stats.dump());
  });
}

TEST_CASE("an operation that failed is counted as failed") {
  run_ranks(2, [](rueda_session* session, int rank) {
    std::vector<float> values(static_cast<size_t>(rank + 1));
    expect_code(sum(session, values, "w"), RUEDA_MISMATCH, "sum of different shapes");
    const Json stats = stats_of(session);
    expect(stats.at("tensors").at("failed") == 1, "failed: " + stats.dump());
    expect(stats.at("bytes") == 0, "bytes: " + stats.dump());
  });
}

TEST_CASE("stats need a session and a place for the length, and write nothing that does not fit") {
  size_t bytes = 0;
  CHECK(rueda_stats(nullptr, nullptr, 0, &bytes) == RUEDA_NOT_INITIALIZED);
  run_ranks(1, [](rueda_session* session, int) {
    size_t needed = 0;
    std::string text(8, 'x');
    expect_code(rueda_stats(session, text.data(), text.size(), &needed), RUEDA_OK, "a short buffer");
    expect(needed > text.size() && text == "xxxxxxxx", "nothing is written");
    expect_code(rueda_stats(session, text.data(), text.size(), nullptr), RUEDA_INVALID_ARGUMENT, "no length");
    expect_code(rueda_stats(session, nullptr, 8, &needed), RUEDA_INVALID_ARGUMENT, "no buffer");
  });
}

TEST_CASE("a dump shows what is in flight and what the program says, while another thread waits") {
  const TemporaryFolder folder;
  run_ranks(2, [&](rueda_session* session, int rank) {
    std::vector<float> values(10);
    expect_code(sum(session, values, "first"), RUEDA_OK, "sum");
    expect_code(rueda_set_activity_callback(session, say, const_cast<char*>("train.py:31")), RUEDA_OK, "callback");
    if (rank == 0) {
      const rueda_handle handle = start_sum(session, values, "late");
      expect_code(rueda_dump(session, folder.file("r{rank}.json").c_str()), RUEDA_OK, "dump");
      const Json dump = Json::parse(text_of(folder.file("r0.json")));
      expect(dump.at("activity") == "train.py:31", "activity: " + dump.dump());
      expect(dump.at("rank") == 0 && dump.at("size") == 2 && dump.at("pid") == ::getpid(), "who: " + dump.dump());
      const Json& operations = dump.at("operations");
      expect(operations.size() == 2, "operations: " + dump.dump());
      expect(operations.at(0).at("name") == "first" && operations.at(0).at("state") == "finished",
             "first: " + dump.dump());
      expect(operations.at(0).at("batch") == 0 && operations.at(0).at("finished") >= operations.at(0).at("started"),
             "times: " + dump.dump());
      expect(operations.at(1).at("name") == "late" && !operations.at(1).contains("batch"), "late: " + dump.dump());
      expect_code(sum(session, values, "signal"), RUEDA_OK, "sum");
      expect_code(finish(handle).code, RUEDA_OK, "late");
    } else {
      expect_code(sum(session, values, "signal"), RUEDA_OK, "sum");  // rank 0 has dumped
      expect_code(sum(session, values, "late"), RUEDA_OK, "late");
    }
    expect_code(rueda_set_activity_callback(session, nullptr, nullptr), RUEDA_OK, "no callback");
    expect_code(rueda_dump(session, "/no/such/folder/dump"), RUEDA_SYSTEM, "dump to nowhere");
  });
}

TEST_CASE("a dump without a path goes to the log") {
  LogLines lines;
  run_ranks(1, [](rueda_session* session, int) {
    std::vector<float> values(10);
    expect_code(sum(session, values, "w"), RUEDA_OK, "sum");
    expect_code(rueda_dump(session, nullptr), RUEDA_OK, "dump");
  });
  const std::string text = lines.text();
  CHECK_THAT(text, Catch::Matchers::Contains("flight record of 1 operations, 0 in flight; status: ok"));
  CHECK_THAT(text, Catch::Matchers::Contains("#1 allreduce \"w\" (f32, 10 elements): finished"));
}

TEST_CASE("metrics are served as Prometheus text on loopback where a port was named") {
  const ReservedPort reserved;
  const uint16_t port = reserved.number();
  ::setenv("RUEDA_METRICS_PORT", std::to_string(port).c_str(), 1);
  std::string page;
  std::string elsewhere;
  run_ranks(1, [&](rueda_session* session, int) {
    std::vector<float> values(10);
    expect_code(sum(session, values, "w"), RUEDA_OK, "sum");
    page = get_page(port, "/metrics");
    elsewhere = get_page(port, "/other");
  });
  ::unsetenv("RUEDA_METRICS_PORT");
  CHECK_THAT(page, Catch::Matchers::StartsWith("HTTP/1.1 200 OK"));
  CHECK_THAT(page, Catch::Matchers::Contains("rueda_bytes_total{rank=\"0\",kind=\"allreduce\"} 40\n"));
  CHECK_THAT(elsewhere, Catch::Matchers::StartsWith("HTTP/1.1 404"));
  CHECK(get_page(port, "/metrics").empty());  // nobody listens after the shutdown
}

TEST_CASE("a session whose metrics port is taken says so and works") {
  const core::UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const uint16_t port = bind_any(taken.get());
  REQUIRE(::listen(taken.get(), 1) == 0);
  LogLines lines;
  ::setenv("RUEDA_METRICS_PORT", std::to_string(port).c_str(), 1);
  run_ranks(1, [](rueda_session* session, int) { expect_usable(session, "w"); });
  ::unsetenv("RUEDA_METRICS_PORT");
  CHECK_THAT(lines.text(), Catch::Matchers::Contains("cannot listen on 127.0.0.1 port " + std::to_string(port)));
}

TEST_CASE("stats and dumps are there in C++ too") {
  const TemporaryFolder folder;
  const Session session;
  std::vector<float> values(3);
  session.allreduce(values, {.name = "w"});
  CHECK(Json::parse(session.stats()).at("tensors").at("finished") == 1);
  session.dump(folder.file("dump"));
  CHECK(Json::parse(text_of(folder.file("dump.0"))).at("operations").size() == 1);
}

}  // namespace rueda::test
