#include "launcher/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

// A pipe would do as well; a memory file can also be read by a second rueda_init of the same process.
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

// All that the child needs, made before fork: between fork and exec it may not allocate.
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

// In the child. Returns only if the program could not be run.
void become(const Child& child) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(127);  // it died before the line above
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
  sigprocmask(SIG_SETMASK, &all, &before);  // else a signal for the child would reach our handler in it
  const pid_t pid = fork();
  if (pid == 0) {
    become(child);
    const int error = errno;
    const ssize_t told = write(child.report, &error, sizeof error);
    _exit(told == sizeof error ? 127 : 126);
  }
  const int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid > 0) setpgid(pid, pid);  // whoever is first; a signal to the group may follow at once
  errno = error;
  return pid;
}

bool fail(StartFailure& failure, int error, const std::string& what) {
  failure = {error, fmt::format("{}: {}", what, std::strerror(error))};
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
  if (!opened) return fail(failure, errno, "descriptors for its input, output and key");

  std::vector<std::string> environment = order.environment;
  environment.insert(environment.end(), rank.environment.begin(), rank.environment.end());
  environment.push_back(fmt::format("RUEDA_JOB_KEY_FD={}", key.get()));
  const auto arguments = pointers(order.arguments);
  const auto variables = pointers(environment);
  const Child child{order.program.c_str(), order.directory.c_str(), arguments.data(), variables.data(),   in.read.get(),
                    out.write.get(),       err.write.get(),         key.get(),        report.write.get(), getpid()};
  const pid_t pid = fork_child(child);
  if (pid < 0) return fail(failure, errno, "fork");
  report.write.reset();
  int error = 0;
  if (read(report.read.get(), &error, sizeof error) == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    const UniqueFd folder(open(order.directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!folder.valid()) {
      return fail(failure, errno,
                  fmt::format("its working folder {}, which hvdrun has on its own host", order.directory));
    }
    const bool there = error == ENOENT && faccessat(folder.get(), order.program.c_str(), F_OK, 0) == 0;
    return fail(failure, error,
                fmt::format("running {} in {}{}", order.program, order.directory,
                            there ? ", which is there: it is the interpreter that its first line names" : ""));
  }
  process = {pid, std::move(in.write), std::move(out.read), std::move(err.read)};
  for (const UniqueFd* fd : {&process.output, &process.errors}) make_non_blocking(*fd);
  if (process.input.valid()) make_non_blocking(process.input);
  return true;
}

}  // namespace rueda::core::launcher
