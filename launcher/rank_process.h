#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "launcher/messages.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// A started rank: its pid, which is also its process group, and our ends of its pipes, non-blocking.
struct RankProcess {
  pid_t pid = -1;
  UniqueFd input;  ///< its stdin; invalid where that is /dev/null
  UniqueFd output;
  UniqueFd errors;
};

enum class InputFrom { kNothing, kPipe };

/// Why a rank did not start: the errno and a sentence.
struct StartFailure {
  int error = 0;
  std::string sentence;
};

/// Forks and executes the order's program as this rank, in its own process group, with default signals and the job's
/// key in a descriptor named by RUEDA_JOB_KEY_FD. The child dies with the calling thread, which must be the main one of
/// a process without others. Returns once the program runs; on failure nothing is left and `failure` says why.
bool start_rank(const StartOrder& order, const RankOrder& rank, InputFrom input, RankProcess& process,
                StartFailure& failure);

}  // namespace rueda::core::launcher
