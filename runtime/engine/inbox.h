#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/fast_mutex.h"
#include "runtime/base/status.h"
#include "runtime/engine/baton.h"
#include "runtime/engine/operation.h"

namespace rueda::core {

/// A process set that a caller adds, or the number of one that it removes.
struct SetChange {
  SetId number = kGlobalSet;
  std::vector<int> ranks;  ///< ascending
  std::string name;
};

/// What callers ask of the next turn.
struct InboxItem {
  enum class Kind { kSubmit, kAbandon, kAddSet, kRemoveSet } kind;
  std::shared_ptr<Operation> operation;       ///< of the first two
  std::unique_ptr<const SetChange> set = {};  ///< of the others
};

/// Holds callers' wishes until the next turn: many producers, one consumer (the baton's holder). A group is one
/// operation, so it enters whole or not at all. Once closed it refuses everything but abandonment, with the reason
/// given; a refused operation takes no number.
class Inbox {
 public:
  /// If it fails, the inbox is closed for this reason and the item was not taken. Any thread.
  Status push(InboxItem item) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (ended_ || (!closed_.ok() && item.kind != InboxItem::Kind::kAbandon)) return closed_;
    waiting_.push_back(std::move(item));
    // Such a store costs a full barrier, so only if it changes anything. If the flag is set, what is there has yet to
    // be taken, and this will be taken with it: the flag changes under the mutex only.
    if (!filled_.load()) filled_.store(true);
    return {};
  }
  /// The first reason stays. Any thread.
  void close(const Status& why) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (closed_.ok()) closed_ = why;
    is_closed_.store(true);
  }
  /// After `close`, when no turn follows: drops what is there, and takes nothing more. The engine's owner.
  void end() RUEDA_EXCLUDES(mutex_) {
    std::vector<InboxItem> dropped;
    MutexLock lock(mutex_);
    ended_ = true;
    dropped.swap(waiting_);
    filled_.store(false);
  }
  /// Ok while open.
  Status closed() const RUEDA_EXCLUDES(mutex_) {
    if (!is_closed_.load()) return {};
    MutexLock lock(mutex_);
    return closed_;
  }
  bool empty() const { return !filled_.load(); }
  /// Swaps everything waiting into `taken`, which is cleared first.
  void take(std::vector<InboxItem>& taken) RUEDA_ON(baton_holder) RUEDA_EXCLUDES(mutex_) {
    taken.clear();
    MutexLock lock(mutex_);
    taken.swap(waiting_);
    // The mutex orders this with each `push`. A look without the mutex that still sees true costs one empty `take`.
    filled_.store(false, std::memory_order_release);
  }

 private:
  mutable FastMutex mutex_;
  std::vector<InboxItem> waiting_ RUEDA_GUARDED_BY(mutex_);
  Status closed_ RUEDA_GUARDED_BY(mutex_);
  bool ended_ RUEDA_GUARDED_BY(mutex_) = false;
  std::atomic<bool> filled_{false};
  std::atomic<bool> is_closed_{false};  ///< a look at it takes no lock
};

}  // namespace rueda::core
