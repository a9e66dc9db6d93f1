// Jobs on one host whose ranks may not share memory: the kernel refuses, in a rank process and before its init, what a
// sandbox or a container refuses. The ranks then agree on TCP, say so once, and compute the same.
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/support/rank_processes.h"
#include "tests/support/refused_call.h"
#include "tests/support/scale.h"

namespace rueda::test {
namespace {

void must(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// Mounts an empty file system that this process alone sees.
void mount_over(const char* folder, unsigned long flags, const char* options) {
  must(unshare(CLONE_NEWNS) == 0, "unshare");
  must(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
  must(mount("none", folder, "tmpfs", flags, options) == 0, folder);
}

// From here on this process goes on in a child, which is process 1 of a namespace of its own.
void become_process_one() {
  must(unshare(CLONE_NEWPID) == 0, "unshare");
  const pid_t child = fork();
  must(child >= 0, "fork");
  if (child == 0) return;
  int status = 0;
  must(waitpid(child, &status, 0) == child, "waitpid");
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

// A control group whose memory is limited. Version 1 of control groups, which this file needs, has folders for it;
// `memory_limits_test` covers version 2.
class LimitedGroup {
 public:
  explicit LimitedGroup(size_t bytes) {
    std::ifstream lines("/proc/self/cgroup");
    for (std::string line; std::getline(lines, line);) {
      const size_t at = line.find(":memory:");
      if (at != std::string::npos) folder_ = "/sys/fs/cgroup/memory" + line.substr(at + 8);
    }
    folder_ += "/rueda-test-" + std::to_string(getpid()) + "-" + std::to_string(bytes);
    made_ = mkdir(folder_.c_str(), 0700) == 0 && std::ofstream(folder_ + "/memory.limit_in_bytes") << bytes;
  }
  // Every member has been reaped.
  ~LimitedGroup() { rmdir(folder_.c_str()); }
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;
  bool made() const { return made_; }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  bool made_ = false;
};

void refuse(const std::string& what) {
  if (what.starts_with("group="))
    must(bool(std::ofstream(what.substr(6) + "/cgroup.procs") << getpid() << std::flush), "group");
  const long memfd[] = {SYS_memfd_create};
  const long pidfd[] = {SYS_pidfd_open};
  if (what == "memfd") must(core::refuse_calls(memfd), "seccomp");
  if (what == "pidfd") must(core::refuse_calls(pidfd), "seccomp");
  if (what == "unix-sockets") must(core::refuse_call_with(SYS_socket, AF_UNIX), "seccomp");
  if (what == "read-only-shm") mount_over("/dev/shm", MS_RDONLY, nullptr);
  if (what == "tiny-shm") mount_over("/dev/shm", 0, "size=64k");
  if (what == "own-shm") mount_over("/dev/shm", 0, nullptr);
  if (what == "no-proc") mount_over("/proc", MS_RDONLY, nullptr);
  if (what == "own-processes") become_process_one();
}

std::string stats_of(rueda_session* session) {
  size_t bytes = 0;
  static_cast<void>(rueda_stats(session, nullptr, 0, &bytes));
  std::string json(bytes + 4096, '\0');
  expect_code(rueda_stats(session, json.data(), json.size(), &bytes), RUEDA_OK, "stats");
  json.resize(std::strlen(json.c_str()));
  return json;
}

// Sums tensors of one to many chunks: element i of rank r is r + i % 7, so each sum is known.
void expect_sums(rueda_session* session) {
  const int size = rueda_size(session), rank = rueda_rank(session);  // each a lock and a copy: not for each element
  for (const size_t count : {size_t{1}, size_t{1000}, size_t{400'000}}) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(rank + static_cast<int>(i % 7));
    expect_code(sum(session, values, "sum"), RUEDA_OK, "sum");
    size_t right = 0;
    const auto expected = [&](size_t i) { return size * (size - 1) / 2 + size * static_cast<int>(i % 7); };
    while (right < count && values[right] == static_cast<float>(expected(right))) ++right;
    expect(right == count, "element " + std::to_string(right) + " of " + std::to_string(count) + " has a wrong sum");
  }
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Namespaces and mounts need root.
bool may_make_namespaces() {
  if (geteuid() == 0) return true;
  WARN("not tested: making namespaces needs root");
  return false;
}

struct Sandbox {
  const char* refused;  // what the rank tells the kernel to refuse
  const char* reason;   // in rank 0's warning; empty: the ranks share memory all the same
};

// Runs a job of `size` ranks, of which those from `first` on are in the sandbox, and returns how they ended. No rank
// looks for leaks: LeakSanitizer needs the /proc of its own namespace.
std::vector<RankOutcome> run_in(const char* refused, int size, int first) {
  RankProcesses ranks({.size = size, .body = "rank: sums in a sandbox", .of_rank = [&](int rank) {
                         return RankProcesses::Variables{{"RUEDA_LOCAL_SIZE", std::to_string(size)},
                                                         {"SANDBOX", rank >= first ? refused : ""},
                                                         {"ASAN_OPTIONS", "detect_leaks=0"}};
                       }});
  return ranks.finish();
}

// Every rank ended well, in this place of the job, and rank 0 alone warned, once.
void check_job(const std::vector<RankOutcome>& outcomes, const Sandbox& sandbox, const std::string& apart) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const RankOutcome& outcome = outcomes[rank];
    CAPTURE(sandbox.refused, rank, outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(count_of(outcome.output, "no shared memory between") == (rank == 0 && !apart.empty() ? 1 : 0));
    if (rank == 0 && !apart.empty()) {
      CHECK_THAT(outcome.output,
                 Catch::Contains("no shared memory between " + apart + ", which use TCP instead; rank"));
      CHECK_THAT(outcome.output, Catch::Contains(sandbox.reason));
    }
  }
}

}  // namespace

TEST_CASE("rank: sums in a sandbox", "[.]") {
  std::istringstream refused(std::getenv("SANDBOX") == nullptr ? "" : std::getenv("SANDBOX"));
  for (std::string what; std::getline(refused, what, ',');) refuse(what);
  rueda_session* session = nullptr;
  if (rueda_init(nullptr, &session) != RUEDA_OK) return rank_report("init " + std::string(rueda_last_error()));
  expect_sums(session);
  rank_report("hosts " + std::to_string(rueda_local_size(session)) + "/" + std::to_string(rueda_cross_size(session)));
  rank_report("memory " + std::string(stats_of(session).find("\"shm_") != std::string::npos ? "shared" : "apart"));
  expect_code(rueda_shutdown(session), RUEDA_OK, "shutdown");
}

TEST_CASE("where shared memory is refused, to one rank or to all, the ranks use TCP and say why") {
  if (!may_make_namespaces()) return;
  const Sandbox sandboxes[] = {
      {"memfd,read-only-shm", "memfd_create: Operation not permitted; O_TMPFILE in /dev/shm: Read-only file system"},
      {"memfd,tiny-shm", "bytes in /dev/shm: No space left on device"},
      {"unix-sockets", "local socket: socket: Operation not permitted"},
  };
  for (const Sandbox& sandbox : sandboxes) {
    for (const int first : {0, 1}) {
      const auto outcomes = run_in(sandbox.refused, 2, first);
      check_job(outcomes, sandbox, "rank 0 and rank 1");
      for (const RankOutcome& outcome : outcomes) {
        CHECK(outcome.report("hosts") == "1/2");
        CHECK(outcome.report("memory") == "apart");
      }
    }
  }
}

TEST_CASE("in mount namespaces of their own, ranks without memfd see another /dev/shm and use TCP") {
  if (!may_make_namespaces()) return;
  const Sandbox sandbox{"memfd,own-shm", "is not sealed against resizing"};
  const auto outcomes = run_in(sandbox.refused, 2, 0);
  check_job(outcomes, sandbox, "rank 0 and rank 1");
  for (const RankOutcome& outcome : outcomes) CHECK(outcome.report("memory") == "apart");
}

TEST_CASE("one rank of four in a sandbox is a host of its own, and the others share memory") {
  if (!may_make_namespaces()) return;
  const Sandbox sandbox{"memfd,read-only-shm", "rank 3: shared memory: memfd_create: Operation not permitted"};
  const auto outcomes = run_in(sandbox.refused, 4, 3);
  check_job(outcomes, sandbox, "ranks 0-2 and rank 3");
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    CHECK(outcomes[rank].report("hosts") == (rank == 3 ? "1/2" : rank == 0 ? "3/2" : "3/1"));
  }
}

TEST_CASE("ranks share memory without /proc, pidfd or memfd, and in namespaces of mounts and processes of their own") {
  if (!may_make_namespaces()) return;
  for (const char* refused : {"no-proc", "pidfd", "memfd", "own-shm", "own-processes", "pidfd,own-shm,own-processes"}) {
    const auto outcomes = run_in(refused, 2, 0);
    check_job(outcomes, {refused, ""}, "");
    for (const RankOutcome& outcome : outcomes) {
      CHECK(outcome.report("hosts") == "2/1");
      CHECK(outcome.report("memory") == "shared");
    }
  }
}

TEST_CASE("a memory limit without room for shared memory means TCP, and one without room for TCP a sentence") {
  if (!core::kThorough) return;  // a sanitizer takes more than these limits
  const LimitedGroup tight(size_t{12} << 20), full(size_t{2} << 20);
  if (!tight.made() || !full.made()) {
    WARN("not tested: no control group with a memory limit can be made here");
    return;
  }
  const std::string join_tight = "group=" + tight.folder(), join_full = "group=" + full.folder();
  const auto outcomes = run_in(join_tight.c_str(), 2, 0);
  check_job(outcomes, {join_tight.c_str(), "2 ranks in it need 9.2 MiB each"}, "rank 0 and rank 1");
  for (const RankOutcome& outcome : outcomes) CHECK(outcome.report("memory") == "apart");
  for (const RankOutcome& outcome : run_in(join_full.c_str(), 2, 0)) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK_THAT(outcome.report("init"), Catch::Contains("is 2.0 MiB") && Catch::Contains("need 1.0 MiB each"));
  }
}

TEST_CASE("a job of one rank needs no shared memory") {
  if (!may_make_namespaces()) return;
  const auto outcomes = run_in("memfd,read-only-shm,unix-sockets", 1, 0);
  check_job(outcomes, {"memfd", ""}, "");
}

}  // namespace rueda::test
