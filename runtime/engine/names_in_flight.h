#pragma once
#include <cstddef>
#include <deque>
#include <memory_resource>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// The names of operations between enqueue and completion. A name may be in flight once in a process set; only sends
/// may share a name, and then keep their order. A name that comes again can be given a number, which stands for it
/// without a look at its text. The engine owns it. Any thread.
class NamesInFlight {
 public:
  /// The number of `name`, from 1 on. The same name gets the same number, as long as this lives.
  uint32_t intern(std::string_view name) RUEDA_EXCLUDES(mutex_);
  /// The name of `number`, NUL-terminated and valid as long as this lives; empty if there is no such number.
  std::string_view text(int64_t number) const RUEDA_EXCLUDES(mutex_);
  /// Takes all names of the operation or none. Returns kInvalidArgument, naming the first that is already in flight or
  /// comes twice in the group. Sets the number of each request that has an interned name. The requests' names stay
  /// where they are until `release`. If there is no memory, it throws and takes none.
  Status reserve(Operation& operation) RUEDA_EXCLUDES(mutex_);
  /// Gives the names back. To be called once after each `reserve` that succeeded.
  void release(const Operation& operation) RUEDA_EXCLUDES(mutex_);

 private:
  /// A name in flight without a number. The text is the request's own: it stays where it is while the name is in
  /// flight.
  struct Named {
    std::string_view name;
    SetId set;
    bool operator==(const Named&) const = default;
  };
  struct NamedHash {
    size_t operator()(const Named& named) const { return std::hash<std::string_view>()(named.name) ^ named.set; }
  };
  /// Whether a second request of this name is refused.
  static bool is_single(const Request& request);
  uint32_t number_of(const Request& request) const RUEDA_REQUIRES(mutex_);
  bool enter(const Request& request) RUEDA_REQUIRES(mutex_);
  void leave(const Request& request) RUEDA_REQUIRES(mutex_);
  void leave_first(const Operation& operation, size_t count) RUEDA_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::deque<std::string> texts_ RUEDA_GUARDED_BY(mutex_);  ///< by number - 1
  std::unordered_map<std::string_view, uint32_t> numbers_ RUEDA_GUARDED_BY(mutex_);
  /// Memory of the two sets: entries come on one thread and go on another, at the rate of small operations.
  std::pmr::unsynchronized_pool_resource pool_ RUEDA_GUARDED_BY(mutex_);
  std::pmr::unordered_set<uint64_t> numbered_ RUEDA_GUARDED_BY(mutex_){&pool_};       ///< in flight: set and number
  std::pmr::unordered_set<Named, NamedHash> named_ RUEDA_GUARDED_BY(mutex_){&pool_};  ///< in flight without a number
};

}  // namespace rueda::core
