#pragma once
#include <memory>

#include "runtime/base/abort.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// An `Abort` that also wakes loops which sleep in poll: its descriptor is readable from `raise` on. Any thread.
class Cutoff {
 public:
  /// Returns kSystem if the system gives no descriptor.
  static Result<std::shared_ptr<Cutoff>> make();
  /// Returns true if this call set the reason.
  bool raise(Status why);
  const Abort& abort() const { return abort_; }
  bool raised() const { return abort_.raised(); }
  /// Only to wait for: nobody reads it.
  int fd() const { return bell_.get(); }

 private:
  explicit Cutoff(UniqueFd bell) : bell_(std::move(bell)) {}
  Abort abort_;
  const UniqueFd bell_;
};

}  // namespace rueda::core
