#pragma once
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Where a launcher's verdict about a death comes from. Used by the coordinator thread, owned by the engine.
class VerdictSource {
 public:
  virtual ~VerdictSource() = default;
  /// Readable when `take` has something to say.
  virtual int fd() const = 0;
  /// Never blocks. Empty: nothing yet. Not ok: the reason to end the epoch. Ok: the source itself has ended, nothing
  /// more will come.
  virtual std::optional<Status> take() = 0;
  /// Tells the judge what it cannot see itself: `how` as in "rank 1 died: <how>". Never blocks.
  virtual void report(int rank, const std::string& how) = 0;
};

}  // namespace rueda::core
