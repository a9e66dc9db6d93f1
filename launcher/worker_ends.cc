// Looks at /proc anew each time, because a process that forks while it is listed is found only the next time. SIGKILL
// is repeated until nothing is left. A process in the middle of a broken device call may never end; it is given up
// after a while, so that an agent does not look for it for ever.

#include "launcher/worker_ends.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "runtime/base/file_text.h"

namespace rueda::core::launcher {
namespace {

using std::chrono::milliseconds;

bool carries(pid_t pid, const std::string& variable) {
  const std::string all = '\0' + file_text("/proc/" + std::to_string(pid) + "/environ");
  return all.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

std::vector<ProcessMark> WorkerEnds::processes_of(int worker, pid_t pid) {
  const std::string variable = "RUEDA_WORKER_ID=" + std::to_string(worker);
  const std::vector<ProcessMark> below = pid > 0 ? descendants_of(pid) : std::vector<ProcessMark>();
  std::vector<ProcessMark> all;
  for (const ProcessMark& process : descendants_of(getpid())) {
    const bool own = process.pid == pid || std::find(below.begin(), below.end(), process) != below.end();
    if (own || carries(process.pid, variable)) all.push_back(process);
  }
  return all;
}

void WorkerEnds::end(int worker, pid_t pid, milliseconds grace) {
  const auto [at, fresh] = ends_.try_emplace(worker, loop_);
  End& end = at->second;
  end.pid = pid;
  const auto kill_at = SteadyClock::now() + grace;
  if (fresh) {
    for (const ProcessMark& process : processes_of(worker, pid)) {
      signal_process(process, SIGTERM);
      signal_process(process, SIGCONT);  // a stopped process does not act on SIGTERM
    }
  }
  if (!fresh && end.kill_at <= kill_at) return;
  end.kill_at = kill_at;
  end.give_up_at = kill_at + kGiveUpAfter;
  end.timer.start(grace, [this, worker] { kill_all(worker); });
}

void WorkerEnds::clean_up(int worker, milliseconds grace) {
  if (const auto found = ends_.find(worker); found != ends_.end()) {
    found->second.pid = -1;  // its number may be another process's soon
  } else {
    end(worker, -1,
        grace);  // also if nothing is found now: a process that forks and ends may hide its child from one look
  }
}

void WorkerEnds::kill_all(int worker) {
  const auto found = ends_.find(worker);
  if (found == ends_.end()) return;
  End& end = found->second;
  const auto left = processes_of(worker, end.pid);
  if (left.empty() || SteadyClock::now() > end.give_up_at) {
    loop_.post([this, worker] { ends_.erase(worker); });  // not inside the call of its own timer
    return;
  }
  for (const ProcessMark& process : left) signal_process(process, SIGKILL);
  end.timer.start(kKillAgain, [this, worker] { kill_all(worker); });
}

}  // namespace rueda::core::launcher
