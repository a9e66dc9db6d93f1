// The guard survives its agent. An agent that is killed cannot end its ranks, so a second process, too simple to fail,
// waits above it and kills what is left:
//
//   hvdrun or sshd -> guard -> agent -> ranks -> their children
//
//   guard dies   the agent reads the end of the pipe `life`, which only the guard held open, and ends its ranks
//   agent dies   its orphans become the guard's children, and the guard kills all of them
//
// The guard passes SIGTERM on to the agent, because a scheduler may send it to either of them.
//
// The guard lets go of the link to hvdrun, so that hvdrun reads the end of file as soon as the agent dies.

#include "launcher/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

#include "launcher/agent.h"
#include "launcher/descendants.h"
#include "runtime/base/deadline.h"
#include "runtime/base/shortage.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {
namespace {

constexpr std::chrono::seconds kLongestStop{3};  // a stopped agent is continued after this

// Terminals and schedulers may signal every process of a job. hvdrun passes signals on to the ranks; guard and agent
// ignore them, so that they live to clean up.
void ignore_forwarded_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(signal, SIG_IGN);
}

// The link belongs to the agent alone. If it stayed open here, hvdrun would not see the agent die.
void let_go_of_link() {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(null.get(), STDIN_FILENO);
  dup2(null.get(), STDOUT_FILENO);
}

timespec timespec_of(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

// Waits for the agent, then until no process is below us. "No child" means "no descendant", because orphans become our
// children. SIGCHLD is blocked and waited for, so a death between waitpid and the wait is not missed.
//
// An agent that was stopped by mistake (SIGSTOP) would hold the job for ever, because only it watches the ranks and
// hears of hvdrun's end. So it is continued after 3 s. If the whole job was suspended on purpose, the guard is
// suspended too and does nothing.
int outlive(pid_t agent) {
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, SIGTERM);
  sigprocmask(SIG_BLOCK, &awaited, nullptr);
  ::signal(SIGTERM, SIG_DFL);  // blocked, it does nothing; ignored, no wait would return it
  int agent_status = 0;
  bool agent_gone = false;
  Deadline go_on = Deadline::never();  // when to continue a stopped agent
  for (;;) {
    if (agent_gone) signal_descendants(SIGKILL);  // in every round: a process may have forked meanwhile
    int status = 0;
    const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED);
    if (pid < 0 && errno == ECHILD) break;
    if (pid > 0) {
      if (pid != agent) continue;
      go_on = WIFSTOPPED(status) ? Deadline::after(kLongestStop) : Deadline::never();
      if (WIFSTOPPED(status)) continue;
      agent_gone = true;
      agent_status = status;
    } else if (go_on.is_never()) {
      if (sigwaitinfo(&awaited, nullptr) == SIGTERM && !agent_gone) kill(agent, SIGTERM);
    } else if (go_on.passed()) {
      kill(agent, SIGCONT);
      go_on = Deadline::never();
    } else {
      const timespec left = timespec_of(go_on.left(kLongestStop));
      if (sigtimedwait(&awaited, nullptr, &left) == SIGTERM && !agent_gone) kill(agent, SIGTERM);
    }
  }
  return WIFSIGNALED(agent_status) ? 128 + WTERMSIG(agent_status) : WEXITSTATUS(agent_status);
}

}  // namespace

int run_guard() {
  setsid();  // keys typed at hvdrun's terminal send no signal here
  ignore_forwarded_signals();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int life[2];
  if (pipe2(life, O_CLOEXEC) != 0) {
    std::fprintf(stderr, "hvdrun: the guard of a host cannot make a pipe: %s\n", core::reason_of(errno).c_str());
    return 1;
  }
  prctl(PR_SET_NAME, "hvdrun-guard");  // before ranks can run, so that the guard can be found as soon as they do
  const pid_t agent = fork();
  if (agent < 0) {
    std::fprintf(stderr, "hvdrun: the guard of a host cannot fork its agent: %s\n", core::reason_of(errno).c_str());
    return 1;
  }
  UniqueFd read_end(life[0]), write_end(life[1]);
  if (agent == 0) {
    write_end.reset();
    prctl(PR_SET_NAME, "hvdrun-agent");
    return run_agent(std::move(read_end));
  }
  let_go_of_link();
  return outlive(agent);
}

}  // namespace rueda::core::launcher
