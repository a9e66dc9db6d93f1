#pragma once
#include <string>
#include <unordered_set>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// The names of operations between enqueue and completion: one name at a time may be in flight in a set. Any thread.
class NamesInFlight {
 public:
  /// All names of the operation or none. kInvalidArgument names the first that is already there, or twice in the group.
  Status reserve(const Operation& operation) RUEDA_EXCLUDES(mutex_);
  void release(const Operation& operation) RUEDA_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::unordered_set<std::string> names_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
