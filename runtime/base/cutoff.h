#pragma once
#include <atomic>
#include <memory>

#include "runtime/base/abort.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// How something ends that is cut off: at once, or after what runs in it has ended.
enum class Ending { kAtOnce, kInOrder };

/// An `Abort` that also wakes loops which sleep in poll: its descriptor is readable from `raise` on. Any thread.
class Cutoff {
 public:
  /// Returns kSystem if the system gives no descriptor.
  static Result<std::shared_ptr<Cutoff>> make();
  /// Returns true if this call set the reason. The ending is that of the same call.
  bool raise(Status why, Ending ending = Ending::kAtOnce) RUEDA_EXCLUDES(mutex_);
  const Abort& abort() const { return abort_; }
  bool raised() const { return abort_.raised(); }
  /// Once it is raised.
  Ending ending() const { return ending_.load(); }
  /// Only to wait for: nobody reads it.
  int fd() const { return bell_.get(); }

 private:
  explicit Cutoff(UniqueFd bell) : bell_(std::move(bell)) {}
  Mutex mutex_;  ///< held by the thread that raises
  std::atomic<Ending> ending_{Ending::kAtOnce};
  Abort abort_;
  const UniqueFd bell_;
};

}  // namespace rueda::core
