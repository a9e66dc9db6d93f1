// Starts the process that leads to an agent: a guard on this host, or ssh or srun to another. Every descriptor is
// close-on-exec except those that are moved to 0, 1 and 2 of the child. So no other child holds the link open, and
// hvdrun sees its end as soon as the last process that uses it has ended.

#include "launcher/agent_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rueda::core::launcher {
namespace {

Status failed(std::string_view what, int error) {
  return {Code::kSystem, fmt::format("{}: {}", what, std::strerror(error))};
}

/// Owns the two lists that posix_spawn reads.
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  void move(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void in_own_session() { posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID); }
  /// Returns 0 or an errno. `file` with a slash is a path, else it is looked up in PATH.
  int run(const char* file, const std::vector<std::string>& words, pid_t& pid) {
    std::vector<char*> arguments;
    for (const auto& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    return posix_spawnp(&pid, file, &actions_, &attributes_, arguments.data(), environ);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

struct SocketPair {
  UniqueFd ours, theirs;
};
Result<SocketPair> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return failed("cannot make a socket pair for the agent", errno);
  return SocketPair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

Result<AgentProcess> start_local_agent() {
  auto sockets = make_socket_pair();
  if (!sockets.ok()) return sockets.status();
  AgentProcess agent;
  agent.socket = std::move(sockets.value().ours);
  Spawn spawn;
  spawn.move(sockets.value().theirs.get(), STDIN_FILENO);
  spawn.move(sockets.value().theirs.get(), STDOUT_FILENO);
  // This very file, even if a new one was installed over it since: hvdrun and its agent must be of one build.
  const int error = spawn.run("/proc/self/exe", {"hvdrun", "--agent"}, agent.pid);
  if (error == ENOENT) {
    return Status(Code::kSystem,
                  "cannot start the agent: /proc/self/exe is not there; hvdrun needs /proc to find its "
                  "program and the processes of ranks (mount -t proc proc /proc)");
  }
  if (error != 0) return failed("cannot start the agent", error);
  return agent;
}

Result<AgentProcess> start_remote_agent(const std::vector<std::string>& command) {
  auto sockets = make_socket_pair();
  if (!sockets.ok()) return sockets.status();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("cannot make a pipe for the agent's stderr", errno);
  AgentProcess agent;
  agent.socket = std::move(sockets.value().ours);
  agent.errors = UniqueFd(ends[0]);
  const UniqueFd their_errors(ends[1]);
  fcntl(agent.errors.get(), F_SETFL, O_NONBLOCK);  // our end alone; the child's end stays as it is
  Spawn spawn;
  spawn.in_own_session();
  spawn.move(sockets.value().theirs.get(), STDIN_FILENO);
  spawn.move(sockets.value().theirs.get(), STDOUT_FILENO);
  spawn.move(their_errors.get(), STDERR_FILENO);
  const int error = spawn.run(command.front().c_str(), command, agent.pid);
  if (error != 0) return failed(fmt::format("cannot start {}", command.front()), error);
  return agent;
}

void await_agent_processes() {
  while (wait(nullptr) > 0 || errno == EINTR) {
  }
}

}  // namespace rueda::core::launcher
