// Starts one rank:
//
//   agent                                child
//     | fork, all signals blocked -------> |
//     |                                    | die with the agent; own group; default signals; descriptors; folder
//     |                                    | execve
//     | read `report` <--- end of file --- |   close-on-exec: the program runs
//     |               <--- errno --------- |   a step failed
//
// `report` is a pipe that execve closes. So the agent knows at once whether the program runs, and can say why it does
// not. Between fork and execve the child makes only async-signal-safe calls and allocates nothing: all strings are
// built before.

#include "launcher/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "runtime/base/shortage.h"

namespace rueda::core::launcher {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

bool open_pipe(Pipe& pipe) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe.read = UniqueFd(ends[0]);
  pipe.write = UniqueFd(ends[1]);
  return true;
}

// Puts the key into a sealed memory file, which a second rueda_init of the same process can read again. If the kernel
// has no memfd, a pipe must do, which can be read once.
UniqueFd key_descriptor(const std::string& key) {
  UniqueFd fd(memfd_create("rueda-job-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.valid()) {
    const bool written = write(fd.get(), key.data(), key.size()) == static_cast<ssize_t>(key.size());
    if (!written || lseek(fd.get(), 0, SEEK_SET) != 0) return {};
    fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return fd;
  }
  Pipe pipe;
  if (!open_pipe(pipe) || write(pipe.write.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()))
    return {};
  return std::move(pipe.read);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// All that the child needs, made before fork.
struct Child {
  const char* program;
  const char* directory;
  char* const* arguments;
  char* const* environment;
  int input, output, errors, key, report;
  pid_t parent;
};

void default_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Runs in the child. Returns only if a step failed, with its errno.
void become(const Child& child) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(127);  // the agent died before the line above
  setpgid(0, 0);
  default_signals();
  const bool ready = dup2(child.input, STDIN_FILENO) >= 0 && dup2(child.output, STDOUT_FILENO) >= 0 &&
                     dup2(child.errors, STDERR_FILENO) >= 0 && fcntl(child.key, F_SETFD, 0) == 0 &&
                     chdir(child.directory) == 0;
  if (ready) execve(child.program, child.arguments, child.environment);
}

pid_t fork_child(const Child& child) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // else a signal for the child could run our handler in it
  const pid_t pid = fork();
  if (pid == 0) {
    become(child);
    const int error = errno;
    const ssize_t told = write(child.report, &error, sizeof error);
    _exit(told == sizeof error ? 127 : 126);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  // Parent and child both do this; the first to run wins, so a signal to the group cannot come too early.
  if (pid > 0) setpgid(pid, pid);
  errno = error;
  return pid;
}

bool fail(StartFailure& failure, int error, const std::string& what) {
  failure = {error, fmt::format("{}: {}", what, core::reason_of(error))};
  return false;
}

void make_non_blocking(const UniqueFd& fd) { fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK); }

}  // namespace

bool start_rank(const StartOrder& order, const RankOrder& rank, InputFrom input, RankProcess& process,
                StartFailure& failure) {
  Pipe in, out, err, report;
  const UniqueFd key = key_descriptor(order.key);
  const bool piped = input == InputFrom::kPipe;
  if (!piped) in.read = UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const bool opened =
      key.valid() && (piped ? open_pipe(in) : in.read.valid()) && open_pipe(out) && open_pipe(err) && open_pipe(report);
  if (!opened) return fail(failure, errno, "cannot open pipes for its input and output, or a file for its key");

  std::vector<std::string> environment = order.environment;
  environment.insert(environment.end(), rank.environment.begin(), rank.environment.end());
  environment.push_back(fmt::format("RUEDA_JOB_KEY_FD={}", key.get()));
  // execve takes the last of two equal names in glibc's view; a rank's own variables never repeat the job's.
  const auto arguments = pointers(order.arguments);
  const auto variables = pointers(environment);
  const Child child{order.program.c_str(), order.directory.c_str(), arguments.data(), variables.data(),   in.read.get(),
                    out.write.get(),       err.write.get(),         key.get(),        report.write.get(), getpid()};
  const pid_t pid = fork_child(child);
  if (pid < 0) return fail(failure, errno, "cannot fork");
  report.write.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);  // another rank's death is a signal
  if (got == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    const UniqueFd folder(open(order.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) {
      return fail(failure, errno,
                  fmt::format("cannot enter its working folder {}, which hvdrun has on its own host", order.directory));
    }
    const bool there = error == ENOENT && faccessat(folder.get(), order.program.c_str(), F_OK, 0) == 0;
    return fail(failure, error,
                fmt::format("cannot run {} in {}{}", order.program, order.directory,
                            there ? ", which exists; the interpreter that its first line names may be missing" : ""));
  }
  process = {pid, std::move(in.write), std::move(out.read), std::move(err.read)};
  for (const UniqueFd* fd : {&process.output, &process.errors}) make_non_blocking(*fd);
  if (process.input.valid()) make_non_blocking(process.input);
  return true;
}

}  // namespace rueda::core::launcher
