#pragma once
#include <memory>
#include <vector>

#include "bindings/c/completion_queue.h"
#include "bindings/c/rueda.h"
#include "runtime/base/fast_mutex.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// The live handles of this process. They are numbers, so that a stale one is an error and never a wild pointer. Each
/// lies in the slot that the last bits of its number name. A number whose slot is taken is passed over. The table has
/// at least twice as many slots as there are handles. One that has grown beyond 16,384 slots goes back to 1,024 when no
/// handle is left. Any thread.
class HandleTable {
 public:
  /// The first number is above `last`.
  explicit HandleTable(rueda_handle last) : last_(last), slots_(kFewestSlots) {}
  /// Adds an operation. `completions`, if not null, is told when the handle is removed.
  rueda_handle insert(std::shared_ptr<Operation> operation, std::shared_ptr<CompletionQueue> completions)
      RUEDA_EXCLUDES(mutex_);
  /// Returns null if there is no such handle.
  std::shared_ptr<Operation> find(rueda_handle handle) RUEDA_EXCLUDES(mutex_);
  /// Removes the handle and returns its operation; null if there is no such handle.
  std::shared_ptr<Operation> remove(rueda_handle handle) RUEDA_EXCLUDES(mutex_);

 private:
  static constexpr size_t kFewestSlots = 1024;  ///< a power of two, as all numbers of slots: 40 KiB
  static constexpr size_t kMostKept = 16384;    ///< 640 KiB
  struct Slot {
    rueda_handle number = 0;  ///< 0: free
    std::shared_ptr<Operation> operation;
    std::shared_ptr<CompletionQueue> completions;
  };
  Slot& slot_of(rueda_handle handle) RUEDA_REQUIRES(mutex_) {
    return slots_[static_cast<size_t>(handle) & (slots_.size() - 1)];
  }
  void grow() RUEDA_REQUIRES(mutex_);
  std::vector<Slot> shrink() noexcept RUEDA_REQUIRES(mutex_);

  FastMutex mutex_;
  rueda_handle last_ RUEDA_GUARDED_BY(mutex_);
  std::vector<Slot> slots_ RUEDA_GUARDED_BY(mutex_);
  size_t live_ RUEDA_GUARDED_BY(mutex_) = 0;
};

/// The table of this process. Handles belong to the process and not to a session, because rueda_wait takes nothing
/// else. A forked child begins with a table of its own; its numbers differ from its parent's.
HandleTable& handles();

}  // namespace rueda::core
