// A rank that does not run any more: stopped by a signal, with and without the means to see it, or frozen with its
// cgroup. Nothing closes then, and no process ends. Every other rank must fail, and name it; a rank that goes on in
// time, or together with all others, must harm nothing.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/freezer.h"
#include "tests/support/rank_processes.h"
#include "tests/support/refused_call.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

constexpr int kRanks = 3;
constexpr int kSums = core::kThorough ? 300 : 60;  // more than pass before the fault, which comes at once
constexpr size_t kElements = 100'000;
constexpr char kWithout[] = "TEST_WITHOUT";

/// Puts the rest of this body into a child with process numbers and a /proc of its own, as a container has. The parent
/// says which number the child has outside, and ends with it.
void enter_process_namespace() {
  expect(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "no namespaces");
  const pid_t child = fork();
  expect(child >= 0, "no child");
  if (child > 0) {
    rank_report("pid " + std::to_string(child));
    int status = 0;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  expect(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "no private mounts");
  expect(mount("proc", "/proc", "proc", 0, nullptr) == 0, "no /proc of its own");
}

void take_away(const std::string& what) {
  if (what == "process namespace") return enter_process_namespace();
  if (what == "pidfd") {
    const std::array<long, 1> refused{SYS_pidfd_open};
    expect(core::refuse_calls(refused), "no seccomp filters");
  }
  rank_report("pid " + std::to_string(getpid()));
}

/// Waits while the fault lasts: this is the time that the test is about, and no guess at how long something takes.
void let_pass(std::chrono::milliseconds time) {
  const core::UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  itimerspec once{};
  once.it_value.tv_sec = time.count() / 1000;
  once.it_value.tv_nsec = time.count() % 1000 * 1'000'000;
  REQUIRE(timerfd_settime(timer.get(), 0, &once, nullptr) == 0);
  uint64_t rings = 0;
  REQUIRE(read(timer.get(), &rings, sizeof rings) == sizeof rings);
}

bool may_make_namespaces() {
  const pid_t child = fork();
  if (child == 0) _exit(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0 ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/// Ranks that reduce; each has told its process number and runs.
struct Loaded {
  RankProcesses ranks;
  std::vector<pid_t> pids;
  explicit Loaded(const RankProcesses::Variables& variables)
      : ranks({.size = kRanks, .body = "rank: reduces until one is lost", .variables = variables}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      pids.push_back(static_cast<pid_t>(std::stol(ranks.await(rank, "pid"))));
      ranks.await(rank, "loaded");
    }
  }
  void expect_named(int victim, const std::string& cause) {
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == victim) continue;
      const std::string failed = ranks.await(rank, "failed");
      INFO("victim " << victim << ", rank " << rank << ": " << failed);
      CHECK(failed.rfind("PEER_LOST ", 0) == 0);
      CHECK(failed.find("rank " + std::to_string(victim) + " (host ") != std::string::npos);
      CHECK(failed.find(cause) != std::string::npos);
      CHECK(failed.find("RUEDA_PEER_TIMEOUT_SECONDS") != std::string::npos);
    }
  }
};

constexpr char kStopped[] = "it has been stopped (SIGSTOP) for 1.2 s";
constexpr char kSilent[] = "its process has given no sign of life for 1.6 s: it is stopped or frozen";
const RankProcesses::Variables kTwoSeconds{{"RUEDA_PEER_TIMEOUT_SECONDS", "2"}};

}  // namespace

TEST_CASE("rank: reduces until one is lost", "[.]") {
  const char* const without = std::getenv(kWithout);
  take_away(without == nullptr ? "" : without);
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  std::vector<float> values(kElements);
  int32_t code = RUEDA_OK;
  for (int step = 0; code == RUEDA_OK; ++step) {
    if (step == 10) rank_report("loaded");
    code = sum(session, values, "sum");
  }
  rank_report(std::string("failed ") + rueda_error_name(code) + " " + rueda_last_error());
  rueda_shutdown(session);
}

TEST_CASE("rank: reduces and checks every sum", "[.]") {
  rueda_session* session = nullptr;
  REQUIRE(rueda_init(nullptr, &session) == RUEDA_OK);
  rank_report("up");
  rank_await();
  const auto rank = static_cast<float>(rueda_rank(session));
  for (int step = 0; step < kSums; ++step) {
    const auto first = static_cast<float>(step);
    std::vector<float> values(kElements, first + rank);
    expect_code(sum(session, values, "sum"), RUEDA_OK, "sum " + std::to_string(step));
    const std::vector<float> wanted(kElements, kRanks * first + kRanks * (kRanks - 1) / 2);
    expect(values == wanted, "sum " + std::to_string(step) + " is wrong");
  }
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

TEST_CASE("a rank that is stopped for ever is named by all others, rank 0 too") {
  const int victim = GENERATE(0, 1);
  Loaded loaded(kTwoSeconds);
  REQUIRE(kill(loaded.pids[static_cast<size_t>(victim)], SIGSTOP) == 0);
  loaded.expect_named(victim, kStopped);
}

TEST_CASE("a stopped rank is named if the system gives no pidfd") {
  const int victim = GENERATE(0, 1);
  RankProcesses::Variables variables = kTwoSeconds;
  variables[kWithout] = "pidfd";
  Loaded loaded(variables);
  REQUIRE(kill(loaded.pids[static_cast<size_t>(victim)], SIGSTOP) == 0);
  loaded.expect_named(victim, kSilent);
}

TEST_CASE("a stopped rank is named if each rank has process numbers of its own") {
  if (!may_make_namespaces()) {
    WARN("skipped: this user may not make process namespaces");
    return;
  }
  RankProcesses::Variables variables = kTwoSeconds;
  variables[kWithout] = "process namespace";
  Loaded loaded(variables);
  REQUIRE(kill(loaded.pids[1], SIGSTOP) == 0);
  loaded.expect_named(1, kSilent);
}

TEST_CASE("a rank that is frozen with its cgroup is named") {
  const auto kind = GENERATE(Freezer::Kind::kVersion1, Freezer::Kind::kVersion2);
  Loaded loaded(kTwoSeconds);
  std::optional<Freezer> freezer = Freezer::make(kind);
  if (!freezer) {
    WARN("skipped: this machine lets us make no such freezer");
    return;
  }
  freezer->add(loaded.pids[1]);
  freezer->freeze();
  loaded.expect_named(1, kSilent);
}

TEST_CASE("a rank that is stopped for 1.5 s and goes on changes no sum") {
  const int victim = GENERATE(0, 1);
  // A slow machine may stretch the stop, so the limit is far away.
  RankProcesses ranks({.size = kRanks,
                       .body = "rank: reduces and checks every sum",
                       .variables = {{"RUEDA_PEER_TIMEOUT_SECONDS", "60"}}});
  for (int rank = 0; rank < kRanks; ++rank) ranks.await(rank, "up");
  for (int rank = 0; rank < kRanks; ++rank) ranks.tell(rank, "go on");
  ranks.signal(victim, SIGSTOP);
  let_pass(std::chrono::milliseconds(1500));
  ranks.signal(victim, SIGCONT);
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

TEST_CASE("a job that is frozen as a whole, for longer than the limit, goes on as if nothing had been") {
  const auto kind = GENERATE(Freezer::Kind::kVersion1, Freezer::Kind::kVersion2);
  RankProcesses ranks({.size = kRanks, .body = "rank: reduces and checks every sum", .variables = kTwoSeconds});
  for (int rank = 0; rank < kRanks; ++rank) ranks.await(rank, "up");
  std::optional<Freezer> freezer = Freezer::make(kind);
  if (!freezer) {
    WARN("skipped: this machine lets us make no such freezer");
    return;
  }
  for (int rank = 0; rank < kRanks; ++rank) freezer->add(ranks.pid(rank));
  for (int rank = 0; rank < kRanks; ++rank) ranks.tell(rank, "go on");
  freezer->freeze();
  let_pass(std::chrono::milliseconds(3500));
  freezer->thaw();
  for (const RankOutcome& outcome : ranks.finish()) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
  }
}

}  // namespace rueda::test
