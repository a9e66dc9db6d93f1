#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// What the command line says about ssh. Everything else comes from ssh's own configuration.
struct SshOptions {
  int port = 0;               ///< 0 if ssh's configuration decides
  std::string identity_file;  ///< empty if ssh's configuration decides
  std::chrono::seconds connect_timeout{30};
};

/// Returns the command that starts an agent on another host. Only host, user, port, key file and the path of hvdrun
/// vary; the path is quoted for the other host's login shell. That host runs the file at that path, or if there is
/// none, the hvdrun in its PATH. The words hold no secret, because every user can list them. ssh asks nothing at the
/// terminal: an unknown host or a missing key is a failure.
std::vector<std::string> ssh_command(const HostSlots& host, const SshOptions& options, const std::string& hvdrun);

/// Returns why a host has no agent, as a clause: "cannot be reached by ssh: Connection refused". `command` is ssh or
/// srun, `wait_status` its end, `last_line` what it printed last (may be empty; control characters become ?), and
/// `hvdrun` the path in `ssh_command`.
std::string explain_command_end(const std::string& command, int wait_status, std::string_view last_line,
                                const std::string& hvdrun);

/// Quotes `text` as one word for a POSIX shell, csh or fish.
std::string shell_word(std::string_view text);

}  // namespace rueda::core::launcher
