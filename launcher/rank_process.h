#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/messages.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// A started rank: its pid, which is also its process group, and our ends of its pipes, which are non-blocking.
struct RankProcess {
  pid_t pid = -1;
  UniqueFd input;  ///< its stdin; invalid if that is /dev/null
  UniqueFd output;
  UniqueFd errors;
};

enum class InputFrom { kNothing, kPipe };

/// Why a rank did not start, as an errno and a clause after "was not started: ".
struct StartFailure {
  int error = 0;
  std::string sentence;
};

/// Forks and executes the order's program as this rank, in its own process group, with default signals and the job's
/// key in the descriptor that RUEDA_JOB_KEY_FD names. The kernel kills the rank when the calling thread ends, so the
/// caller is the main thread of a process that has no other. Blocks until the program runs. Returns false if it does
/// not; then no process is left and `failure` says why.
bool start_rank(const StartOrder& order, const RankOrder& rank, InputFrom input, RankProcess& process,
                StartFailure& failure);

}  // namespace rueda::core::launcher
