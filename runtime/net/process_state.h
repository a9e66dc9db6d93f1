#pragma once
#include <optional>

#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// Returns the state letter (proc(5)) of the process behind a pidfd: 'R' runs, 'S' sleeps, 'T' is stopped, 't' is
/// traced, 'Z' has ended. Returns empty if the process is gone, has no number in our pid namespace, or /proc is not
/// mounted.
std::optional<char> process_state(const UniqueFd& pidfd);

}  // namespace rueda::core
