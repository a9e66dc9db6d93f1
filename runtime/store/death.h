#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// What a verdict tells.
enum class DeathKind : uint8_t {
  kDied = 0,  ///< a rank is dead
  kOver = 1,  ///< the plan of an elastic job is over though nobody died: for example, a worker left with its host
  kLeft = 2   ///< the same, and the worker that ended it has said goodbye: what was agreed before can run to its end
};

/// The judge's verdict that a rank is dead, and of what. hvdrun writes it under `death_key`, and every engine of the
/// job watches that key. A value.
struct DeathVerdict {
  uint64_t epoch = 0;  ///< the epoch it ends; 0 means the receiver's current one
  int rank = 0;
  std::string host;
  int64_t pid = 0;    ///< 0 if unknown, for example because the rank could not be started
  std::string cause;  ///< "killed by signal 9 (Killed)", "exited with code 3"; if nobody died, a whole sentence
  DeathKind kind = DeathKind::kDied;
  int64_t worker = -1;  ///< in an elastic job the number of the dead one

  /// kPeerLost: "rank 1 (host a, pid 123) died: killed by signal 9 (Killed)"; in an elastic job "rank 1 (worker 5, host
  /// a, pid 123) died: ..."; the cause alone if nobody died.
  Status status() const;
};

std::string encode(const DeathVerdict& verdict);
/// Returns empty if the bytes are not a verdict or break its limits.
std::optional<DeathVerdict> decode_death(std::string_view bytes);

}  // namespace rueda::core
