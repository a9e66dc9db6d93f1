#pragma once
#include <memory>
#include <unordered_map>

#include "bindings/c/completion_queue.h"
#include "bindings/c/rueda.h"
#include "runtime/base/mutex.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

class Engine;

/// What a handle stands for; both null if it stands for nothing.
struct Submitted {
  std::shared_ptr<Operation> operation;
  std::shared_ptr<Engine> engine;  ///< the one that runs the operation
};

/// The live handles of this process: numbers, so that a stale one is an error and never a wild pointer. Any thread.
class HandleTable {
 public:
  /// Numbers begin behind `last`.
  explicit HandleTable(rueda_handle last) : last_(last) {}
  /// `completions`, where not null, is told when the handle goes.
  rueda_handle insert(Submitted submitted, std::shared_ptr<CompletionQueue> completions) RUEDA_EXCLUDES(mutex_);
  Submitted find_submitted(rueda_handle handle) const RUEDA_EXCLUDES(mutex_);
  /// Null: no such handle.
  std::shared_ptr<Operation> find(rueda_handle handle) const { return find_submitted(handle).operation; }
  /// What it stood for; null: no such handle.
  std::shared_ptr<Operation> remove(rueda_handle handle) RUEDA_EXCLUDES(mutex_);

 private:
  struct Live {
    Submitted submitted;
    std::shared_ptr<CompletionQueue> completions;
  };
  mutable Mutex mutex_;
  std::unordered_map<rueda_handle, Live> live_ RUEDA_GUARDED_BY(mutex_);
  rueda_handle last_ RUEDA_GUARDED_BY(mutex_);
};

/// Handles belong to the process, not to a session: rueda_wait takes nothing else. A forked child begins with a table
/// of its own, whose numbers are none of its parent's.
HandleTable& handles();

}  // namespace rueda::core
