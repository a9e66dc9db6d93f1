#pragma once
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// The arenas that this process owns: so that a second rank of the process gets the same object, and the child of a
/// fork private mappings. One for the process, never destroyed. Any thread.
class LiveArenas {
 public:
  static LiveArenas& get();
  void add(const std::shared_ptr<TensorArena>& arena) RUEDA_EXCLUDES(mutex_);
  /// Called by the destructor.
  void forget(const TensorArena* arena) RUEDA_EXCLUDES(mutex_);
  /// Returns null if this process does not own that file.
  std::shared_ptr<TensorArena> find(uint64_t device, uint64_t inode) RUEDA_EXCLUDES(mutex_);

 private:
  struct Entry {
    TensorArena* arena;
    std::weak_ptr<TensorArena> shared;
  };
  LiveArenas();
  void lock_all() RUEDA_ATTRIBUTE(no_thread_safety_analysis);
  void unlock_all() RUEDA_ATTRIBUTE(no_thread_safety_analysis);
  void isolate_all() RUEDA_ATTRIBUTE(no_thread_safety_analysis);

  Mutex mutex_;
  std::vector<Entry> entries_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
