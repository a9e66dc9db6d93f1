#pragma once
#include <list>
#include <unordered_map>

#include "bindings/c/rueda.h"
#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// The finished operations of one session that were not drained yet, in the order in which they finished, and a
/// descriptor that is readable while there are any. Holds no more entries than there are live handles. Any thread.
class CompletionQueue {
 public:
  /// Returns the descriptor, which the first call makes and this queue closes. Returns kSystem if no descriptor is
  /// left.
  Result<int> fd() RUEDA_EXCLUDES(mutex_);
  /// Adds a finished operation. Ignored if its handle was released, and after `close`.
  void add(const rueda_completion& completion) RUEDA_EXCLUDES(mutex_);
  /// Removes the entry, if any, of a handle that was released.
  void withdraw(rueda_handle handle) RUEDA_EXCLUDES(mutex_);
  /// Moves at most `capacity` of the oldest entries to `out` and returns their number.
  size_t drain(rueda_completion* out, size_t capacity) RUEDA_EXCLUDES(mutex_);
  /// Closes the descriptor and drops all entries, present and future.
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
