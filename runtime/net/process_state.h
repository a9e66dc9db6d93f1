#pragma once
#include <optional>

#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// The state letter of /proc/PID/stat of the process behind a pidfd: 'R' runs, 'S' sleeps, 'T' is stopped, 't' is
/// traced, 'Z' has ended. Nothing where the process is gone, has no number in our pid namespace, or /proc is not there.
std::optional<char> process_state(const UniqueFd& pidfd);

}  // namespace rueda::core
