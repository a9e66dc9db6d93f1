#include "launcher/agent_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace rueda::core::launcher {

Result<AgentProcess> start_local_agent() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status(Code::kSystem, fmt::format("a socket pair for the agent: {}", std::strerror(errno)));
  }
  AgentProcess agent;
  agent.socket = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::unique_ptr<posix_spawn_file_actions_t, int (*)(posix_spawn_file_actions_t*)> freed(
      &actions, posix_spawn_file_actions_destroy);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  char name[] = "hvdrun", flag[] = "--agent";
  char* const arguments[] = {name, flag, nullptr};
  const int error = posix_spawn(&agent.guard, "/proc/self/exe", &actions, nullptr, arguments, environ);
  if (error != 0) return Status(Code::kSystem, fmt::format("starting the agent: {}", std::strerror(error)));
  return agent;
}

}  // namespace rueda::core::launcher
