#include "runtime/net/process_state.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace rueda::core {
namespace {

TEST_CASE("a process behind a pidfd runs, is stopped, ends, and is gone") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  REQUIRE(pidfd.valid());
  const auto state = process_state(pidfd);
  REQUIRE(state.has_value());
  CHECK((*state == 'S' || *state == 'R'));
  ::kill(child, SIGSTOP);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  CHECK(process_state(pidfd) == 'T');
  ::kill(child, SIGKILL);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK(process_state(pidfd) == 'Z');
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK_FALSE(process_state(pidfd).has_value());
  CHECK_FALSE(process_state(UniqueFd()).has_value());
}

}  // namespace
}  // namespace rueda::core
