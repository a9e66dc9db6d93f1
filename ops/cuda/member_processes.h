#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace rueda::cuda {

/// A process as others of its host may look at it.
struct ProcessMark {
  uint64_t space;  ///< names the host's kernel and the namespace in which the number counts
  uint32_t number;
};

/// Returns the mark of this process.
ProcessMark own_process();

/// A member of a communicator.
struct MemberProcess {
  int rank;
  ProcessMark process;
};

/// Returns the ranks of members whose processes have ended, as far as this process can look at them: those of other
/// hosts, and of containers that see other numbers, count as running.
std::vector<int> ended_among(std::span<const MemberProcess> members);

}  // namespace rueda::cuda
