#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// Why the epoch is over, or that nothing will say so.
struct Verdict {
  Status why;  ///< not ok for the reason; ok if the source itself has ended and nothing more will come
  /// The epoch ends in order: this rank says goodbye, and what was agreed before may run for so long. 0: at once.
  std::chrono::nanoseconds patience{0};
};

/// Brings the launcher's verdict about a death. The coordinator owns it, and its thread uses it.
class VerdictSource {
 public:
  virtual ~VerdictSource() = default;
  /// A descriptor that is readable when `take` may return something.
  virtual int fd() const = 0;
  /// Never blocks. Empty if nothing has come yet.
  virtual std::optional<Verdict> take() = 0;
  /// Tells the judge what it cannot see itself: `how` as in "rank 1 died: <how>". Never blocks.
  virtual void report(int rank, const std::string& how) = 0;
};

}  // namespace rueda::core
