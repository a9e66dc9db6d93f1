#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace rueda::core {

/// The judge's word that a rank is dead: which one, and what of. hvdrun writes it under `death_key`, and every engine
/// of the job watches that key (`StoreWatch`).
struct DeathVerdict {
  uint64_t epoch = 0;  ///< the one it ends; 0: whichever the receiver is in
  int rank = 0;
  std::string host;
  int64_t pid = 0;    ///< 0: not known, as of a rank that could not be started
  std::string cause;  ///< "killed by signal 9 (Killed)", "exited with code 3"

  /// kPeerLost: "rank 1 (host a, pid 123) died: killed by signal 9 (Killed)"
  Status status() const;
};

std::string encode(const DeathVerdict& verdict);
/// Empty: not such a text, or one that breaks its limits.
std::optional<DeathVerdict> decode_death(std::string_view bytes);

}  // namespace rueda::core
