#pragma once
#include <memory>
#include <unordered_map>

#include "bindings/c/completion_queue.h"
#include "bindings/c/rueda.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/operation.h"
#include "runtime/engine/spare_nodes.h"

namespace rueda::core {

/// The live handles of this process. They are numbers, so that a stale one is an error and never a wild pointer. Any
/// thread.
class HandleTable {
 public:
  /// The first number is `last` + 1.
  explicit HandleTable(rueda_handle last) : last_(last) {}
  /// Adds an operation. `completions`, if not null, is told when the handle is removed.
  rueda_handle insert(std::shared_ptr<Operation> operation, std::shared_ptr<CompletionQueue> completions)
      RUEDA_EXCLUDES(mutex_);
  /// Returns null if there is no such handle.
  std::shared_ptr<Operation> find(rueda_handle handle) const RUEDA_EXCLUDES(mutex_);
  /// Removes the handle and returns its operation; null if there is no such handle.
  std::shared_ptr<Operation> remove(rueda_handle handle) RUEDA_EXCLUDES(mutex_);

 private:
  struct Live {
    std::shared_ptr<Operation> operation;
    std::shared_ptr<CompletionQueue> completions;
  };
  mutable Mutex mutex_;
  using Table = std::unordered_map<rueda_handle, Live>;
  Table live_ RUEDA_GUARDED_BY(mutex_);
  SpareNodes<Table> spare_ RUEDA_GUARDED_BY(mutex_);
  rueda_handle last_ RUEDA_GUARDED_BY(mutex_);
};

/// The table of this process. Handles belong to the process and not to a session, because rueda_wait takes nothing
/// else. A forked child begins with a table of its own; its numbers differ from its parent's.
HandleTable& handles();

}  // namespace rueda::core
