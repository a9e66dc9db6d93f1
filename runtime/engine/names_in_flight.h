#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// The names of operations between enqueue and completion: one name at a time may be in flight in a set, but for sends,
/// of which those of one name keep their order. A name that comes again can be given a number, by which it is kept
/// without a look at its text. Any thread.
class NamesInFlight {
 public:
  /// The number of `name`, from 1 on, the same each time; for good.
  uint32_t intern(std::string_view name) RUEDA_EXCLUDES(mutex_);
  /// The name of `number`, NUL-terminated, where it is for good; empty: there is no such number.
  std::string_view text(int64_t number) const RUEDA_EXCLUDES(mutex_);
  /// All names of the operation or none. kInvalidArgument names the first that is already there, or twice in the group.
  /// Requests whose name has a number get it.
  Status reserve(Operation& operation) RUEDA_EXCLUDES(mutex_);
  void release(const Operation& operation) RUEDA_EXCLUDES(mutex_);

 private:
  /// Whether a second one of its name is refused.
  static bool is_single(const Request& request);
  uint32_t number_of(const Request& request) const RUEDA_REQUIRES(mutex_);
  bool enter(const Request& request) RUEDA_REQUIRES(mutex_);
  void leave(const Request& request) RUEDA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<std::string> texts_ RUEDA_GUARDED_BY(mutex_);  ///< by number - 1
  std::unordered_map<std::string_view, uint32_t> numbers_ RUEDA_GUARDED_BY(mutex_);
  std::unordered_set<uint64_t> numbered_ RUEDA_GUARDED_BY(mutex_);  ///< in flight: set and number
  std::unordered_set<std::string> named_ RUEDA_GUARDED_BY(mutex_);  ///< in flight without a number
};

}  // namespace rueda::core
