// Words and exit codes for the end of a process, in one file so that hvdrun's reports, ssh's failures and the judge's
// verdict name the same end alike.

#include "launcher/wait_status.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

namespace rueda::core::launcher {

std::string describe_signal(int signal) {
  const char* name = strsignal(signal);
  return fmt::format("signal {} ({})", signal, name == nullptr ? "unknown" : name);
}

std::string describe_wait_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) return "killed by " + describe_signal(WTERMSIG(wait_status));
  return fmt::format("exited with code {}", WEXITSTATUS(wait_status));
}

int exit_code_of(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace rueda::core::launcher
