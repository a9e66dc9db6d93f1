// A signal meant for a descendant, and a number that another process has got meanwhile.

#include "launcher/descendants.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <vector>

using namespace rueda::core::launcher;

namespace {

// A child that only waits.
pid_t idle_child() {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  return child;
}

// One with this number, which must be free; -1 if this user may not choose.
pid_t idle_child_numbered(pid_t number) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<uint64_t>(&number);
  arguments.set_tid_size = 1;
  const auto child = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
  if (child == 0) {
    for (;;) pause();
  }
  return child;
}

uint64_t ticks_since_boot() {
  timespec now{};
  REQUIRE(clock_gettime(CLOCK_BOOTTIME, &now) == 0);
  const auto each = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  return static_cast<uint64_t>(now.tv_sec) * each + static_cast<uint64_t>(now.tv_nsec) * each / 1'000'000'000;
}

void end_child(pid_t child) {
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
}

}  // namespace

TEST_CASE("a signal for a descendant does not reach a process that has got its number") {
  const pid_t first = idle_child();
  const std::vector<ProcessMark> listed = descendants_of(getpid());
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].pid == first);
  CHECK(signal_process(listed[0], SIGCONT));
  end_child(first);
  CHECK_FALSE(signal_process(listed[0], SIGKILL));
  while (ticks_since_boot() <= listed[0].started) sched_yield();  // no number comes round within one tick
  const pid_t second = idle_child_numbered(first);
  if (second < 0) {
    WARN("skipped: this user may not choose the number of a process");
    return;
  }
  REQUIRE(second == first);
  CHECK_FALSE(signal_process(listed[0], SIGKILL));
  CHECK(waitpid(second, nullptr, WNOHANG) == 0);
  end_child(second);
}
