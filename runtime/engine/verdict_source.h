#pragma once
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Brings the launcher's verdict about a death. The coordinator owns it, and its thread uses it.
class VerdictSource {
 public:
  virtual ~VerdictSource() = default;
  /// A descriptor that is readable when `take` may return something.
  virtual int fd() const = 0;
  /// Never blocks. Empty if nothing has come yet; not ok for the reason to end the epoch; ok if the source itself has
  /// ended and nothing more will come.
  virtual std::optional<Status> take() = 0;
  /// Tells the judge what it cannot see itself: `how` as in "rank 1 died: <how>". Never blocks.
  virtual void report(int rank, const std::string& how) = 0;
};

}  // namespace rueda::core
