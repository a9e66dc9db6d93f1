#pragma once
#include "runtime/base/mutex.h"
#include "runtime/store/key_table.h"
#include "runtime/store/store.h"

namespace rueda::core {

/// A store inside one process, for ranks on threads. Any number of threads at a time.
class MemoryStore : public Store {
 public:
  Status set(std::string_view key, std::string_view value) override RUEDA_EXCLUDES(mutex_);
  Result<std::string> get(std::string_view key, Deadline deadline) override RUEDA_EXCLUDES(mutex_);
  Result<int64_t> add(std::string_view key, int64_t amount) override RUEDA_EXCLUDES(mutex_);
  Status remove(std::string_view key) override RUEDA_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  Condition changed_;
  KeyTable table_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
