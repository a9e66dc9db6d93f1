#pragma once
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "runtime/base/fast_mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/recycled_set.h"

namespace rueda::core {

/// The names of operations between enqueue and completion. A name may be in flight once in a process set; only sends
/// may share a name, and then keep their order. A name that comes again can be interned: its number stands for it
/// without a look at its text. The first names to come get a number by themselves, which callers do not know. The
/// engine owns it. Any thread.
class NamesInFlight {
 public:
  /// While fewer names than this have a number, new ones get one by themselves. Without a limit, names that contain a
  /// counter would fill the memory.
  static constexpr size_t kKnownNames = 4096;

  /// The number of `name`, at least 1. The same name gets the same number, as long as this lives. If there is no
  /// memory, it throws and changes nothing.
  uint32_t intern(std::string_view name) RUEDA_EXCLUDES(mutex_);
  /// The interned name of `number`, NUL-terminated and valid as long as this lives; empty if there is none.
  std::string_view text(int64_t number) const RUEDA_EXCLUDES(mutex_);
  /// Gives the interned names of `other` the same numbers here. To be called before the first name comes.
  void copy_from(const NamesInFlight& other) RUEDA_EXCLUDES(mutex_);
  /// Takes all names of the operation or none. Returns kInvalidArgument, naming the first that is already in flight or
  /// comes twice in the group. Sets the number of each request whose name has one. The requests' names stay
  /// where they are until `release`. If there is no memory, it throws and takes none.
  Status reserve(Operation& operation) RUEDA_EXCLUDES(mutex_);
  /// Gives the names of these operations back, each given by one of its tensors, unless `Operation::names_free` says
  /// that they are back already. Each `reserve` that succeeded needs one release.
  void release(std::span<TensorPart* const> of) RUEDA_EXCLUDES(mutex_);

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
  /// A name with a number.
  struct Known {
    std::string text;
    bool interned = false;   ///< callers may know the number
    bool in_flight = false;  ///< in the set of all ranks
  };
  uint32_t add(std::string_view name) RUEDA_REQUIRES(mutex_);
  uint32_t number_of(const Request& request) RUEDA_REQUIRES(mutex_);
  uint32_t found_at(size_t index) RUEDA_REQUIRES(mutex_);
  bool enter_number(uint32_t number, SetId set) RUEDA_REQUIRES(mutex_);
  void leave_number(uint32_t number, SetId set) RUEDA_REQUIRES(mutex_);
  bool enter(const Request& request) RUEDA_REQUIRES(mutex_);
  void leave(const Request& request) RUEDA_REQUIRES(mutex_);
  void leave_first(const Operation& operation, size_t count) RUEDA_REQUIRES(mutex_);

  mutable FastMutex mutex_;
  std::deque<Known> known_ RUEDA_GUARDED_BY(mutex_);  ///< by number - 1
  std::unordered_map<std::string_view, uint32_t> numbers_ RUEDA_GUARDED_BY(mutex_);
  size_t after_last_ RUEDA_GUARDED_BY(mutex_) = 0;  ///< in `known_`: behind the last name that was looked up
  RecycledSet<std::unordered_set<uint64_t>> numbered_ RUEDA_GUARDED_BY(mutex_);       ///< in other sets: set and number
  RecycledSet<std::unordered_set<Named, NamedHash>> named_ RUEDA_GUARDED_BY(mutex_);  ///< in flight without a number
};

}  // namespace rueda::core
