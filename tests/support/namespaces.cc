// Makes namespaces and keeps them alive with a child that does nothing else, and runs commands to their end. The child
// reports through a pipe: its end without a word means that the setup is done.
#include "tests/support/namespaces.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

extern char** environ;  // NOLINT: POSIX names it so

namespace rueda::test {
namespace {

using core::UniqueFd;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

struct Pipe {
  UniqueFd read, write;
};
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// The child's whole life. It says nothing when all is well, and else the reason.
[[noreturn]] void keep(const std::function<void()>& setup, UniqueFd told) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  signal(SIGCHLD, SIG_IGN);  // children are reaped by the kernel
  try {
    setup();
  } catch (const std::exception& error) {
    const ssize_t put = write(told.get(), error.what(), std::strlen(error.what()));
    _exit(put > 0 ? 1 : 2);
  }
  told.reset();
  for (;;) pause();
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(fd, buffer.data(), buffer.size())) > 0;) text.append(buffer.data(), size_t(got));
  return text;
}

pid_t spawn(const std::vector<std::string>& words, int out, int err) {
  std::vector<char*> arguments;
  for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, 1);
  if (out < 0) posix_spawn_file_actions_adddup2(&actions, 0, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  errno = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) fail(words[0]);
  return pid;
}

}  // namespace

pid_t keep_namespaces(int flags, const std::function<void()>& setup) {
  Pipe told = make_pipe();
  const auto pid = static_cast<pid_t>(
      syscall(SYS_clone, static_cast<unsigned long>(flags | SIGCHLD), nullptr, nullptr, nullptr, nullptr));
  if (pid < 0) fail("making namespaces");
  if (pid == 0) keep(setup, std::move(told.write));
  told.write.reset();
  const std::string reason = read_to_end(told.read.get());
  if (reason.empty()) return pid;
  waitpid(pid, nullptr, 0);
  throw std::runtime_error(reason);
}

CommandResult run_command(const std::vector<std::string>& words) {
  Pipe out = make_pipe(), err = make_pipe();
  const pid_t pid = spawn(words, out.write.get(), err.write.get());
  out.write.reset();
  err.write.reset();
  CommandResult result;
  while (out.read.valid() || err.read.valid()) {
    std::array<pollfd, 2> ready{{{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}}};
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) fail("poll");
    const auto take = [](const pollfd& from, UniqueFd& fd, std::string& into) {
      std::array<char, 65536> buffer;
      if (from.revents == 0) return;
      const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
      if (got > 0) into.append(buffer.data(), static_cast<size_t>(got));
      if (got <= 0) fd.reset();
    };
    take(ready[0], out.read, result.out);
    take(ready[1], err.read, result.err);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) fail("waitpid");
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

pid_t start_until_it_says(const std::vector<std::string>& words, const std::string& text) {
  Pipe err = make_pipe();
  fcntl(err.write.get(), F_SETFL, O_NONBLOCK);  // nobody reads on: the command must not wait for room
  const pid_t pid = spawn(words, -1, err.write.get());
  err.write.reset();
  std::string said;
  std::array<char, 4096> buffer{};
  while (said.find(text) == std::string::npos) {
    const ssize_t got = read(err.read.get(), buffer.data(), buffer.size());
    if (got > 0) {
      said.append(buffer.data(), static_cast<size_t>(got));
      continue;
    }
    waitpid(pid, nullptr, 0);
    throw std::runtime_error(words[0] + " ended: " + said);
  }
  static_cast<void>(err.read.release());  // stays open, else the command would die of its next word
  return pid;
}

}  // namespace rueda::test
