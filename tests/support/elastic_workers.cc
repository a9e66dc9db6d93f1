// Runs a command as the workers of an elastic job on this host, without hvdrun, for tests of bindings whose workers are
// no C++. Usage: elastic_workers WORKERS LEAST COMMAND...
//
// Every worker is a process of its own. If one ends with an error or by a signal, it is declared dead, and the next
// plan has the others; if one asks for a reset, the next plan has the same workers. Exits with 0 once all have ended
// and one of them with 0; with 1 as soon as fewer than LEAST are left while none has ended with 0.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/store/store_keys.h"
#include "tests/support/elastic_launcher.h"

namespace {

using rueda::core::UniqueFd;
using rueda::test::ElasticLauncher;

constexpr int kKeyFd = 3;

struct Worker {
  pid_t pid;
  UniqueFd ended;
};

/// Ends the program, and so its workers, if the system refuses something.
int must(int result, const char* what) {
  if (result < 0) {
    std::perror(what);
    std::_Exit(2);
  }
  return result;
}

/// The job, and what becomes of it. One thread uses it; the store's thread only writes to a pipe.
class Job {
 public:
  Job(int workers, int least, char** command) : least_(least), command_(command), size_(workers) {
    int ends[2];
    must(pipe2(ends, O_CLOEXEC | O_NONBLOCK), "pipe2");
    asked_ = UniqueFd(ends[0]);
    asks_ = UniqueFd(ends[1]);
  }

  int run() {
    for (int id = 0; id < size_; ++id) {
      start(id);
      listen(id);
    }
    launcher_.publish(members());
    while (!workers_.empty()) {
      if (!wait()) return 1;
    }
    return succeeded_ ? 0 : 1;
  }

 private:
  std::vector<int> members() const {
    std::vector<int> ids;
    for (const auto& entry : workers_) ids.push_back(entry.first);
    return ids;
  }

  void start(int id) {
    const std::string& secret = launcher_.key();
    const UniqueFd key(
        must(memfd_create("key", MFD_CLOEXEC), "memfd_create"));  // one for each, which reads it to its end
    must(static_cast<int>(pwrite(key.get(), secret.data(), secret.size(), 0)), "pwrite");
    const pid_t pid = must(fork(), "fork");
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      must(dup2(key.get(), kKeyFd), "dup2");
      for (const auto& [name, value] : launcher_.variables(id, size_)) setenv(name.c_str(), value.c_str(), 1);
      setenv("RUEDA_JOB_KEY_FD", std::to_string(kKeyFd).c_str(), 1);
      must(execvp(command_[0], command_), command_[0]);
    }
    workers_[id] = {pid, UniqueFd(must(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), "pidfd_open"))};
  }

  void listen(int id) {
    launcher_.store().each_time(rueda::core::reset_key(launcher_.job(), id), [this, id] {
      const char number = static_cast<char>(id);
      must(static_cast<int>(write(asks_.get(), &number, 1)), "write");
    });
  }

  /// Waits for the next end of a worker or request. Returns false once too few workers are left.
  bool wait() {
    std::vector<pollfd> awaited{{asked_.get(), POLLIN, 0}};
    const std::vector<int> ids = members();
    for (const int id : ids) awaited.push_back({workers_[id].ended.get(), POLLIN, 0});
    poll(awaited.data(), awaited.size(), -1);
    bool changed = false;
    for (size_t i = 0; i < ids.size(); ++i) {
      if (awaited[i + 1].revents != 0) changed |= reap(ids[i]);
    }
    char id = 0;
    while (read(asked_.get(), &id, 1) == 1) changed |= answer(id);
    if (!changed || workers_.empty()) return true;
    if (!succeeded_ && static_cast<int>(workers_.size()) < least_) {
      std::fprintf(stderr, "elastic_workers: %zu workers are left, and %d are needed\n", workers_.size(), least_);
      for (const auto& entry : workers_) kill(entry.second.pid, SIGKILL);
      return false;
    }
    launcher_.publish(members());
    return true;
  }

  /// Returns whether the plan is over because of it.
  bool reap(int id) {
    int status = 0;
    waitpid(workers_[id].pid, &status, 0);
    workers_.erase(id);
    if (status == 0) {
      succeeded_ = true;
      return false;
    }
    const std::string how = WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status))
                                                : "exited with code " + std::to_string(WEXITSTATUS(status));
    std::fprintf(stderr, "elastic_workers: worker %d was %s\n", id, how.c_str());
    launcher_.declare_dead(id, how);
    return true;
  }

  /// Returns whether the plan is over because of the request: not if it was over before.
  bool answer(int id) {
    const std::string key = rueda::core::reset_key(launcher_.job(), id);
    const auto asked = launcher_.store().get(key, rueda::core::Deadline::after(std::chrono::seconds(0)));
    const auto request = asked.ok() ? rueda::core::decode_request(asked.value()) : std::nullopt;
    if (!request || request->after != launcher_.plan()) return false;
    launcher_.end_plan("worker " + std::to_string(id) + " asked for a reset",
                       request->in_order ? rueda::core::DeathKind::kLeft : rueda::core::DeathKind::kOver);
    return true;
  }

  const int least_;
  char** const command_;
  const int size_;
  bool succeeded_ = false;
  UniqueFd asked_;
  UniqueFd asks_;
  std::map<int, Worker> workers_;
  ElasticLauncher launcher_;  // ends first, so that its thread writes to a pipe that is there
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: elastic_workers WORKERS LEAST COMMAND...\n");
    return 2;
  }
  return Job(std::atoi(argv[1]), std::atoi(argv[2]), argv + 3).run();
}
