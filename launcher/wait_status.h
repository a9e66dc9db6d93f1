#pragma once
#include <string>

namespace rueda::core::launcher {

/// "signal 9 (Killed)".
std::string describe_signal(int signal);
/// What waitpid said of a process that ended: "killed by signal 9 (Killed)" or "exited with code 3".
std::string describe_wait_status(int wait_status);
/// The exit code that a shell would show: the code itself, or 128 + the signal.
int exit_code_of(int wait_status);

}  // namespace rueda::core::launcher
