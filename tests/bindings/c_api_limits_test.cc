// A rank that runs into a limit of its process: descriptors, threads, address space. Whatever the limit is, init and
// the operations after it succeed, or they fail soon with a sentence that says which limit it was; the process lives
// on, and the other ranks do not wait for their deadline. A sweep over limits lets every call of the start fail once.
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/refused_call.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

using core::kThorough;

constexpr int kPair = 2;
constexpr size_t kLargest = 400'000;
constexpr int kNobody = 65534;
constexpr uint64_t kMiB = 1 << 20;

/// Limits this process as TEST_LIMIT says: "files 24", "processes 6", "memory 40" (MiB beyond what it has) or
/// "group FOLDER", a control group to enter.
void enter_limit() {
  const char* const given = std::getenv("TEST_LIMIT");
  const std::string limit = given == nullptr ? "" : given;
  const size_t space = limit.find(' ');
  if (space == std::string::npos) return;
  const std::string what = limit.substr(0, space), value = limit.substr(space + 1);
  if (what == "group") {
    expect(bool(std::ofstream(value + "/cgroup.procs") << getpid() << std::flush), "no group");
    return;
  }
  rlim_t number = std::stoull(value);
  if (what == "memory") {
    uint64_t pages = 0;
    expect(bool(std::ifstream("/proc/self/statm") >> pages), "no statm");
    number = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + number * kMiB;
  }
  const rlimit both{number, number};
  const auto resource = what == "files" ? RLIMIT_NOFILE : what == "memory" ? RLIMIT_AS : RLIMIT_NPROC;
  expect(setrlimit(resource, &both) == 0, "no limit");
}

/// The kernel counts a user's processes and threads, and root's are not limited.
void leave_root() {
  if (std::getenv("TEST_NOBODY") == nullptr) return;
  expect(setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0, "no other user");
}

void report_error(const char* where) {
  std::string sentence = std::string(where) + ": " + rueda_last_error();
  for (char& c : sentence) c = c == '\n' ? ' ' : c;
  rank_report("error " + sentence);
}

/// Reports "ok", or "error" with the first sentence.
TEST_CASE("rank: starts and sums within its limit", "[.]") {
  std::vector<float> values(kLargest);  // the test's own memory is not what the limit is about
  leave_root();
  enter_limit();
  const auto begin = std::chrono::steady_clock::now();
  rueda_session* session = nullptr;
  bool well = rueda_init(nullptr, &session) == RUEDA_OK;
  if (!well) report_error("init");
  for (const size_t count : {size_t{1}, kLargest}) {
    if (!well) break;
    values.resize(count);
    std::fill(values.begin(), values.end(), 1.0F);
    well = sum(session, values, "sum") == RUEDA_OK;
    if (!well) report_error("sum");
    if (well) expect(values.back() == static_cast<float>(kPair), "a wrong sum");
  }
  const auto took = std::chrono::steady_clock::now() - begin;
  rank_report("took " + std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  if (well) rank_report("ok");
  expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
}

enum class Way { kSharedMemory, kTcp };

struct Trial {
  std::string limit = {};  ///< as `enter_limit` takes it
  int limited = 1;         ///< the rank that has it
  Way way = Way::kTcp;     ///< between the two ranks
  bool nobody = false;     ///< runs as another user than root
  int init_seconds = 100;
};

std::vector<RankOutcome> run(const Trial& trial) {
  RankProcesses::Options options{.size = kPair, .body = "rank: starts and sums within its limit"};
  options.variables = {{"RUEDA_INIT_TIMEOUT_SECONDS", std::to_string(trial.init_seconds)},
                       {"RUEDA_TIMEOUT_SECONDS", "100"}};
  if (trial.nobody) options.variables["TEST_NOBODY"] = "1";
  options.of_rank = [&](int rank) {
    RankProcesses::Variables own;
    if (rank == trial.limited) {
      own["TEST_LIMIT"] = trial.limit;
      own["RUEDA_INIT_TIMEOUT_SECONDS"] = "100";
    }
    if (trial.way == Way::kTcp) own["RUEDA_HOSTNAME"] = "host" + std::to_string(rank);
    return own;
  };
  RankProcesses ranks(options);
  return ranks.finish();
}

bool ended_with(const RankOutcome& outcome, const std::string& word) {
  for (const std::string& line : outcome.reports) {
    if (line.rfind(word, 0) == 0) return true;
  }
  return false;
}

/// Returns true if the ranks succeeded. Otherwise the limited one has said the limit's `word`, and the other has named
/// the limited one.
bool check(const Trial& trial, const std::string& word) {
  const std::vector<RankOutcome> outcomes = run(trial);
  bool well = true;
  for (int rank = 0; rank < kPair; ++rank) {
    const RankOutcome& outcome = outcomes[static_cast<size_t>(rank)];
    std::string said;
    for (const std::string& line : outcome.reports) said += line + "\n";
    INFO(trial.limit << (trial.way == Way::kTcp ? " tcp" : " shared memory") << ", rank " << rank << " of which "
                     << trial.limited << " is limited, says\n"
                     << said << outcome.output);
    CHECK(outcome.exit_code == 0);
    if (ended_with(outcome, "ok")) continue;
    well = false;
    REQUIRE(ended_with(outcome, "error"));
    const std::string sentence = outcome.report("error");
    if (rank == trial.limited) {
      CHECK(std::stoi(outcome.report("took")) < 50'000);  // of 100 s
      CHECK(sentence.find(word) != std::string::npos);
    } else {
      // A rank 0 whose store lets nobody in can tell nobody: the others then name the store.
      CHECK((sentence.find("rank " + std::to_string(trial.limited)) != std::string::npos ||
             (trial.limited == 0 && sentence.find("store at") != std::string::npos)));
    }
  }
  return well;
}

/// The first limit fails and the last is enough, so the sweep crosses every call between.
void sweep(Trial trial, const std::string& kind, const std::vector<int>& values, const std::string& word) {
  std::vector<bool> well;
  for (const int value : values) {
    trial.limit = kind + " " + std::to_string(value);
    well.push_back(check(trial, word));
  }
  CHECK_FALSE(well.front());
  CHECK(well.back());
}

std::vector<int> from_to(int first, int last, int step) {
  std::vector<int> values;
  for (int value = first; value <= last; value += step) values.push_back(value);
  return values;
}

constexpr int kStep = kThorough ? 1 : 7;

/// Returns false if the build says that its sanitizer cannot work without a descriptor to spare.
bool may_take_descriptors() { return std::getenv("TEST_FEW_DESCRIPTORS") == nullptr; }

TEST_CASE("a rank of too few descriptors says so over TCP") {
  if (!may_take_descriptors()) return;
  sweep({.way = Way::kTcp}, "files", from_to(8, 64, kStep), "(ulimit -n)");
}

TEST_CASE("a rank of too few descriptors says so beside shared memory") {
  if (!may_take_descriptors()) return;
  sweep({.way = Way::kSharedMemory}, "files", from_to(8, 64, kStep), "(ulimit -n)");
}

TEST_CASE("a rank 0 of too few descriptors says so") {
  if (!may_take_descriptors()) return;
  sweep({.limited = 0, .way = Way::kSharedMemory, .init_seconds = 5}, "files", from_to(8, 64, 2 * kStep),
        "(ulimit -n)");
}

TEST_CASE("a listening rank of too few descriptors says so") {
  if (!may_take_descriptors()) return;
  sweep({.limited = 0, .way = Way::kTcp, .init_seconds = 5}, "files", from_to(8, 64, 2 * kStep), "(ulimit -n)");
}

/// Opens files until there is no descriptor left for a connection.
void take_all_descriptors() {
  const rlimit few{64, 64};
  expect(setrlimit(RLIMIT_NOFILE, &few) == 0, "no limit");
  while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) continue;
  expect(errno == EMFILE, "another error than the limit");
}

/// Rank 0 listens for the data connection that the first sum makes.
TEST_CASE("rank: has no descriptor left once it has started", "[.]") {
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  if (rueda_rank(session) == 0) take_all_descriptors();
  std::vector<float> values(kLargest);
  expect(sum(session, values, "sum") != RUEDA_OK, "a sum without a connection");
  report_error("sum");
  expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
}

/// The kernel's answer leaves the connection in the queue, so that `accept` would fail again and again.
TEST_CASE("rank: is not allowed to accept", "[.]") {
  const long accepts[] = {SYS_accept4};
  if (std::getenv("TEST_LIMIT") != nullptr) expect(core::refuse_calls(accepts), "no seccomp filters");
  rueda_session* session = nullptr;
  expect(rueda_init(nullptr, &session) != RUEDA_OK, "a control connection that nobody accepted");
  report_error("init");
}

void expect_rank_zero_at_fault(const std::string& body, const std::string& word) {
  RankProcesses::Options options{.size = kPair, .body = body};
  options.variables = {{"RUEDA_INIT_TIMEOUT_SECONDS", "100"}, {"RUEDA_TIMEOUT_SECONDS", "100"}};
  options.of_rank = [](int rank) {
    RankProcesses::Variables own{{"RUEDA_HOSTNAME", "host" + std::to_string(rank)}};
    if (rank == 0) own["TEST_LIMIT"] = "yes";
    return own;
  };
  RankProcesses ranks(options);
  for (const RankOutcome& outcome : ranks.finish()) {
    CHECK(outcome.exit_code == 0);
    const std::string sentence = outcome.report("error");
    CAPTURE(sentence);
    CHECK(sentence.find("rank 0") != std::string::npos);
    CHECK(sentence.find(word) != std::string::npos);
  }
}

TEST_CASE("a rank that runs out of descriptors later takes the blame itself") {
  if (!may_take_descriptors()) return;
  expect_rank_zero_at_fault("rank: has no descriptor left once it has started",
                            "; this process may open 64 (ulimit -n)");
}

TEST_CASE("a rank whose accept fails for good takes the blame itself") {
  expect_rank_zero_at_fault("rank: is not allowed to accept",
                            "cannot accept a connection of another rank: Operation not permitted");
}

/// A control group of version 1 that may have `most` processes and threads; there is none if `folder` is empty.
std::string make_group(int most) {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(":pids:");
    if (at == std::string::npos) continue;
    std::string folder = "/sys/fs/cgroup/pids" + line.substr(at + 6) + "/rueda-test-" + std::to_string(getpid());
    if (mkdir(folder.c_str(), 0700) != 0) return {};
    if (std::ofstream(folder + "/pids.max") << most << std::flush) return folder;
    rmdir(folder.c_str());
  }
  return {};
}

TEST_CASE("a rank whose control group has too few threads names the group") {
  const std::string folder = make_group(1);
  if (folder.empty()) WARN("no control groups for processes here");
  if (folder.empty()) return;
  CHECK_FALSE(check({.limit = "group " + folder}, "(pids.max)"));
  CHECK(std::ofstream(folder + "/pids.max") << 64 << std::flush);
  CHECK(check({.limit = "group " + folder}, ""));
  CHECK(rmdir(folder.c_str()) == 0);
}

TEST_CASE("a rank of too few threads says so") {
  if (geteuid() != 0) WARN("only root can become a user without processes");
  if (geteuid() != 0) return;
  sweep({.way = Way::kTcp, .nobody = true}, "processes", from_to(1, 20, kThorough ? 1 : 4), "(ulimit -u)");
  sweep({.way = Way::kSharedMemory, .nobody = true}, "processes", from_to(1, 20, kThorough ? 1 : 4), "(ulimit -u)");
}

TEST_CASE("a rank of too little address space says so") {
  if (!kThorough) return;  // a sanitizer takes terabytes of it
  // A rank that does not come as far as the store has no way to tell the others; they wait for it.
  const std::vector<int> more{4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 60, 100, 200, 1000};
  sweep({.way = Way::kSharedMemory, .init_seconds = 8}, "memory", more, "(ulimit -v)");
  sweep({.way = Way::kTcp, .init_seconds = 8}, "memory", more, "(ulimit -v)");
}

}  // namespace
}  // namespace rueda::test
