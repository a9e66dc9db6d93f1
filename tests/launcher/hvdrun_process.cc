// Starts the real hvdrun and finds all its processes, wherever they went, by a mark in their environment. A wait that
// takes two minutes fails the test, because a hang is a bug and must not hang the suite.

#include "tests/launcher/hvdrun_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace rueda::core::launcher {
namespace {

constexpr std::chrono::minutes kPatience{2};

}  // namespace

HvdrunProcess::HvdrunProcess(const std::vector<std::string>& arguments, const std::vector<std::string>& before) {
  static int runs = 0;
  mark_ = "TEST_MARK=" + std::to_string(getpid()) + "." + std::to_string(++runs);
  int in[2], out[2], err[2];
  REQUIRE(pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(pipe2(err, O_CLOEXEC) == 0);
  const UniqueFd theirs[] = {UniqueFd(in[0]), UniqueFd(out[1]), UniqueFd(err[1])};
  input_ = UniqueFd(in[1]);
  output_ = UniqueFd(out[0]);
  errors_ = UniqueFd(err[0]);

  std::vector<char*> words;
  for (const auto& word : before) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(const_cast<char*>(before.empty() ? "hvdrun" : RUEDA_HVDRUN));
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.push_back(*entry);
  variables.push_back(mark_.data());
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int fd = 0; fd < 3; ++fd) posix_spawn_file_actions_adddup2(&actions, theirs[fd].get(), fd);
  // As at a terminal, also if the tests run in the background of a shell or behind nohup, which ignore these.
  sigset_t usual;
  sigemptyset(&usual);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) sigaddset(&usual, signal);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const char* const program = before.empty() ? RUEDA_HVDRUN : before.front().c_str();
  const int error = posix_spawnp(&pid_, program, &actions, &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  REQUIRE(error == 0);
}

HvdrunProcess::~HvdrunProcess() {
  for (const auto& process : processes()) kill(process.pid, SIGKILL);
  if (!reaped_) waitpid(pid_, nullptr, 0);
}

void HvdrunProcess::send(int signal) const { REQUIRE(kill(pid_, signal) == 0); }

void HvdrunProcess::send_by_name(const std::string& name, int signal) const {
  REQUIRE(kill(process_named(name), signal) == 0);
}

void HvdrunProcess::write_input(const std::string& bytes) const {
  REQUIRE(write(input_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

bool HvdrunProcess::read_some() {
  std::array<pollfd, 2> ready{{{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}}};
  const int count = poll(ready.data(), ready.size(), static_cast<int>(std::chrono::milliseconds(kPatience).count()));
  if (count <= 0) FAIL("hvdrun is silent; stdout so far:\n" << out_ << "stderr so far:\n" << err_);
  const auto take = [](const pollfd& from, UniqueFd& fd, std::string& into) {
    if (from.revents == 0) return;
    std::array<char, 65536> buffer;
    const ssize_t got = read(fd.get(), buffer.data(), buffer.size());
    if (got > 0) into.append(buffer.data(), static_cast<size_t>(got));
    if (got <= 0) fd.reset();
  };
  take(ready[0], output_, out_);
  take(ready[1], errors_, err_);
  return output_.valid() || errors_.valid();
}

void HvdrunProcess::read_until(const std::string& text, const std::string& stream, const char* name) {
  while (stream.find(text) == std::string::npos) {
    if (!read_some())
      FAIL("hvdrun never printed \"" << text << "\" to " << name << "; stdout:\n" << out_ << "stderr:\n" << err_);
  }
}

void HvdrunProcess::read_until(const std::string& text) { read_until(text, out_, "stdout"); }
void HvdrunProcess::read_errors_until(const std::string& text) { read_until(text, err_, "stderr"); }

int HvdrunProcess::wait() {
  while (read_some()) {
  }
  int status = 0;
  REQUIRE(waitpid(pid_, &status, 0) == pid_);
  reaped_ = true;
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

std::string HvdrunProcess::last_error() const {
  const auto all = lines(err_, "");
  return all.empty() ? "" : all.back();
}

std::vector<std::string> HvdrunProcess::lines(const std::string& text, const std::string& prefix) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with(prefix)) found.push_back(line.substr(prefix.size()));
  }
  return found;
}

std::vector<MarkedProcess> HvdrunProcess::processes() const {
  std::vector<MarkedProcess> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  REQUIRE(proc);
  while (const dirent* entry = readdir(proc.get())) {
    const std::string folder = std::string("/proc/") + entry->d_name;
    const int pid = std::atoi(entry->d_name);
    if (pid == 0 || test::text_of(folder + "/environ").find(mark_ + '\0') == std::string::npos) continue;
    std::string name = test::text_of(folder + "/comm");
    if (!name.empty()) name.pop_back();
    found.push_back({pid, name});
  }
  return found;
}

pid_t HvdrunProcess::process_named(const std::string& name) const {
  for (const auto& process : processes()) {
    if (process.name == name) return process.pid;
  }
  FAIL("no process " << name);
  return -1;
}

void HvdrunProcess::wait_for_end_of(pid_t pid) {
  const UniqueFd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!handle.valid()) return;
  pollfd ended{handle.get(), POLLIN, 0};
  INFO("pid " << pid);
  REQUIRE(poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1);
}

void HvdrunProcess::wait_for_all_to_end() const {
  for (auto left = processes(); !left.empty(); left = processes()) {
    for (const auto& process : left) wait_for_end_of(process.pid);
  }
}

pid_t HvdrunProcess::parent_of(pid_t pid) {
  const std::string text = test::text_of("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream behind(text.substr(text.rfind(')') + 1));
  std::string state;
  pid_t parent = -1;
  behind >> state >> parent;
  return parent;
}

pid_t HvdrunProcess::process_of_worker(int worker) const {
  const std::string variable = "RUEDA_WORKER_ID=" + std::to_string(worker);
  for (const auto& process : processes()) {
    const std::string all = '\0' + test::text_of("/proc/" + std::to_string(process.pid) + "/environ");
    if (all.find('\0' + variable + '\0') != std::string::npos) return process.pid;
  }
  FAIL("worker " << worker << " does not run");
  return -1;
}

}  // namespace rueda::core::launcher
