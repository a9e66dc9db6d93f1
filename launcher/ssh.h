#pragma once
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/hosts.h"

namespace rueda::core::launcher {

/// What the user says about ssh; all else is ssh's own configuration.
struct SshOptions {
  int port = 0;               ///< 0: as ssh's configuration says
  std::string identity_file;  ///< empty: as ssh's configuration says
  std::chrono::seconds connect_timeout{30};
};

/// The words that start an agent on another host: always the same, but for host, user, port, key file and the path of
/// hvdrun, which the other host's login shell gets quoted. Over there the file at that path is run, or else the hvdrun
/// of the PATH. Nothing secret is among them, and nothing is asked of the terminal: a host that is not known, or a key
/// that is missing, is a failure.
std::vector<std::string> ssh_command(const HostSlots& host, const SshOptions& options, const std::string& hvdrun);

/// Why there is no agent, in one clause: "cannot be reached by ssh: Connection refused". `wait_status` is that of the
/// `command` that was to lead there (ssh, srun), `last_line` what it wrote last (may be empty; what a
/// terminal would take for a command becomes ?), `hvdrun` the path in `ssh_command`.
std::string explain_command_end(const std::string& command, int wait_status, std::string_view last_line,
                                const std::string& hvdrun);

/// A word that a POSIX shell, and also csh and fish, reads as `text`.
std::string shell_word(std::string_view text);

}  // namespace rueda::core::launcher
