#pragma once
#include <map>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/engine/engine.h"

namespace rueda::core {

/// The process sets that sends run in: one for each direction between two ranks, made by the two alone when the first
/// of their sends or receives is enqueued. So a send needs nobody else, and is agreed on, cached and named like any
/// operation; two ranks that send to each other under one name do not meet. Any thread.
class PairSets {
 public:
  /// The engine's number for the set. kInvalidArgument: a rank that is none of the job, or the same twice.
  Result<SetId> of(Engine& engine, int sender, int receiver) RUEDA_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::map<std::pair<int, int>, SetId> sets_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
