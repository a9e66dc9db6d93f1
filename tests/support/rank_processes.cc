// Ranks as processes: this test program again, with one hidden test case as its body. A rank finds the pipe for its
// reports at descriptor 3 and the job's key at 4. One poll loop serves all ranks: reports, output, and ends by pidfd.
#include "tests/support/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "runtime/base/random.h"

extern char** environ;  // NOLINT: POSIX names it so

namespace rueda::test {
namespace {

using core::UniqueFd;

// Where a rank process finds the ends of its pipes.
constexpr int kReportFd = 3;
constexpr int kKeyFd = 4;
constexpr int kFirstFree = 10;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("rank processes: " + what + ": " + std::strerror(errno));
}

struct Pipe {
  UniqueFd read, write;
};
// Both ends above the numbers that the child will see, so that none is overwritten on the way.
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
  const UniqueFd low_read(ends[0]);
  const UniqueFd low_write(ends[1]);
  return {UniqueFd(fcntl(ends[0], F_DUPFD_CLOEXEC, kFirstFree)), UniqueFd(fcntl(ends[1], F_DUPFD_CLOEXEC, kFirstFree))};
}

UniqueFd key_descriptor(const std::string& key) {
  const UniqueFd low(memfd_create("rueda-test-key", MFD_CLOEXEC));
  if (!low.valid() || pwrite(low.get(), key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) fail("key");
  return UniqueFd(fcntl(low.get(), F_DUPFD_CLOEXEC, kFirstFree));
}

// This program's environment without a job of its own, with `variables` over it.
std::vector<std::string> environment_with(const RankProcesses::Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "RUEDA_", 6) != 0 && std::strncmp(*entry, "HOROVOD_", 8) != 0) all.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// Appends what can be read; false at the end of the stream.
bool read_some(int fd, std::string& text) {
  std::array<char, 4096> buffer{};
  const ssize_t got = read(fd, buffer.data(), buffer.size());
  if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

/// Returns true if a report begins with the word and holds all parts.
bool says(const std::string& line, const std::string& word, const std::vector<std::string>& parts) {
  if (line != word && line.rfind(word + " ", 0) != 0) return false;
  return std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return line.find(part) != std::string::npos; });
}

}  // namespace

struct RankProcesses::Process {
  pid_t pid = -1;  ///< -1: reaped
  UniqueFd pidfd, input, report, output;
  std::string unfinished_line;
  RankOutcome outcome;

  bool ended() const { return pid < 0 && !report.valid() && !output.valid(); }
  void reap() {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid) fail("waitpid");
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
    pid = -1;
    pidfd.reset();
  }
  void take_lines() {
    for (size_t end; (end = unfinished_line.find('\n')) != std::string::npos; unfinished_line.erase(0, end + 1)) {
      outcome.reports.push_back(unfinished_line.substr(0, end));
    }
  }
};

std::string RankOutcome::report(const std::string& word, const std::vector<std::string>& parts) const {
  std::string all;
  for (const std::string& line : reports) {
    if (says(line, word, parts)) return line.substr(std::min(word.size() + 1, line.size()));
    all += line + "\n";
  }
  std::string wanted = word;
  for (const std::string& part : parts) wanted += " ... " + part;
  throw std::runtime_error("no report '" + wanted + "' from a rank that ended with exit code " +
                           std::to_string(exit_code) + ", signal " + std::to_string(signal) + ", reports:\n" + all +
                           "output:\n" + output);
}

RankProcesses::RankProcesses(const Options& options) {
  const auto key = core::random_key();
  if (!key.ok()) throw std::runtime_error(key.status().sentence());
  key_ = options.key;
  if (key_.empty()) key_.assign(key.value().begin(), key.value().end());
  const int count = options.started < 0 ? options.size : options.started;
  for (int rank = 0; rank < count; ++rank) start(options, rank);
}

RankProcesses::~RankProcesses() {
  for (const auto& process : processes_) {
    if (process->pid < 0) continue;
    kill(process->pid, SIGKILL);
    process->reap();
  }
}

void RankProcesses::start(const Options& options, int rank) {
  Variables variables = {{"RUEDA_RANK", std::to_string(rank)},
                         {"RUEDA_SIZE", std::to_string(options.size)},
                         {"RUEDA_STORE_ADDR", "127.0.0.1:" + std::to_string(port_.number())},
                         {"RUEDA_JOB_KEY_FD", std::to_string(kKeyFd)}};
  for (const auto& [name, value] : options.variables) variables[name] = value;
  if (options.of_rank) {
    for (const auto& [name, value] : options.of_rank(rank)) variables[name] = value;
  }
  std::vector<std::string> environment = environment_with(variables);
  std::vector<std::string> arguments = {"rank-" + std::to_string(rank), options.body};
  Pipe input = make_pipe();
  Pipe report = make_pipe();
  Pipe output = make_pipe();
  const UniqueFd key = key_descriptor(key_);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::pair<int, int> moves[] = {{input.read.get(), 0},
                                       {output.write.get(), 1},
                                       {output.write.get(), 2},
                                       {report.write.get(), kReportFd},
                                       {key.get(), kKeyFd}};
  for (const auto& [from, to] : moves) posix_spawn_file_actions_adddup2(&actions, from, to);
  auto process = std::make_unique<Process>();
  const int error = posix_spawn(&process->pid, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(),
                                pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  if (error != 0) fail("posix_spawn");
  process->pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process->pid, 0)));
  process->input = std::move(input.write);
  process->report = std::move(report.read);
  process->output = std::move(output.read);
  processes_.push_back(std::move(process));
  if (!processes_.back()->pidfd.valid()) fail("pidfd_open");
}

pid_t RankProcesses::pid(int rank) const { return processes_.at(static_cast<size_t>(rank))->pid; }

/// A rank that has ended has no pid, and kill(-1, ...) reaches every process of the machine.
void RankProcesses::signal(int rank, int number) {
  if (pid(rank) <= 0) throw std::runtime_error("rank " + std::to_string(rank) + " has ended; it gets no signal");
  if (kill(pid(rank), number) != 0) fail("kill");
}

void RankProcesses::tell(int rank, const std::string& line) {
  const std::string text = line + "\n";
  const int fd = processes_.at(static_cast<size_t>(rank))->input.get();
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("write to a rank");
}

// Reads what the ranks say and reaps those that end, until `done`.
void RankProcesses::pump(core::Deadline deadline, const std::function<bool()>& done) {
  while (!done() && !deadline.passed()) {
    std::vector<pollfd> fds;
    std::vector<std::function<void()>> actions;
    const auto watch = [&](const UniqueFd& fd, std::function<void()> action) {
      if (!fd.valid()) return;
      fds.push_back({fd.get(), POLLIN, 0});
      actions.push_back(std::move(action));
    };
    for (const auto& process : processes_) {
      Process* const p = process.get();
      watch(p->pidfd, [p] { p->reap(); });
      watch(p->report, [p] {
        if (!read_some(p->report.get(), p->unfinished_line)) p->report.reset();
        p->take_lines();
      });
      watch(p->output, [p] {
        if (!read_some(p->output.get(), p->outcome.output)) p->output.reset();
      });
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(std::chrono::seconds(1)));
    if (poll(fds.data(), fds.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) fail("poll");
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents != 0) actions[i]();
    }
  }
}

std::string RankProcesses::await(int rank, const std::string& word, const std::vector<std::string>& parts) {
  const Process& process = *processes_.at(static_cast<size_t>(rank));
  const auto said = [&] {
    return std::any_of(process.outcome.reports.begin(), process.outcome.reports.end(),
                       [&](const std::string& line) { return says(line, word, parts); });
  };
  pump(patience(), [&] { return said() || process.ended(); });
  return process.outcome.report(word, parts);
}

void RankProcesses::await_stopped(int rank) const {
  siginfo_t how{};
  while (waitid(P_PID, static_cast<id_t>(pid(rank)), &how, WSTOPPED | WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) fail("waitid");
  }
  if (how.si_code != CLD_STOPPED) throw std::runtime_error("rank " + std::to_string(rank) + " ended and did not stop");
}

std::vector<RankOutcome> RankProcesses::finish() {
  const auto all_ended = [&] {
    return std::all_of(processes_.begin(), processes_.end(), [](const auto& process) { return process->ended(); });
  };
  pump(patience(), all_ended);
  for (const auto& process : processes_) {
    if (process->pid >= 0) kill(process->pid, SIGKILL);
  }
  pump(patience(), all_ended);
  std::vector<RankOutcome> outcomes;
  for (const auto& process : processes_) outcomes.push_back(process->outcome);
  return outcomes;
}

void rank_report(const std::string& line) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a rank does not outlive its test
  const std::string text = line + "\n";
  if (write(kReportFd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("write to the test");
}

// By poll(): TSan holds a signal back from a thread that waits in read() or in a stream.
std::string rank_await() {
  std::string line;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  for (;;) {
    const int ready = poll(&input, 1, -1);
    if (ready < 0 && errno == EINTR) continue;
    char byte = 0;
    if (ready < 0 || read(STDIN_FILENO, &byte, 1) != 1 || byte == '\n') break;
    line += byte;
  }
  return line;
}

}  // namespace rueda::test
