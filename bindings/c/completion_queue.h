#pragma once
#include <list>
#include <unordered_map>

#include "bindings/c/rueda.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// Operations of one session that have finished and that nobody has drained, in the order in which they finished, and
/// a descriptor that is readable while there are any. Holds no more entries than there are live handles. Any thread.
class CompletionQueue {
 public:
  /// The descriptor, made with the first call; this queue's to close. kSystem: none is left.
  Result<int> fd() RUEDA_EXCLUDES(mutex_);
  /// The operation of `completion.handle` has finished. Not taken where the handle was released, or after `close`.
  void add(const rueda_completion& completion) RUEDA_EXCLUDES(mutex_);
  /// The handle was released: its entry, if it has one, goes.
  void withdraw(rueda_handle handle) RUEDA_EXCLUDES(mutex_);
  /// Moves at most `capacity` of the oldest entries to `out`; how many.
  size_t drain(rueda_completion* out, size_t capacity) RUEDA_EXCLUDES(mutex_);
  /// Closes the descriptor and drops what is queued and what comes.
  void close() RUEDA_EXCLUDES(mutex_);

 private:
  void signal() RUEDA_REQUIRES(mutex_);

  Mutex mutex_;
  std::list<rueda_completion> queue_ RUEDA_GUARDED_BY(mutex_);
  std::unordered_map<rueda_handle, std::list<rueda_completion>::iterator> places_ RUEDA_GUARDED_BY(mutex_);
  UniqueFd fd_ RUEDA_GUARDED_BY(mutex_);
  bool signalled_ RUEDA_GUARDED_BY(mutex_) = false;  ///< the descriptor is readable
  bool closed_ RUEDA_GUARDED_BY(mutex_) = false;
};

}  // namespace rueda::core
