// A store for ranks that are threads of one process. One condition variable serves all keys: every change wakes every
// waiter, which a store for tests and a few ranks can afford.
#include "runtime/store/memory_store.h"

namespace rueda::core {

Status MemoryStore::set(std::string_view key, std::string_view value) {
  MutexLock lock(mutex_);
  Status status = table_.set(key, value);
  changed_.notify_all();
  return status;
}

Result<std::string> MemoryStore::get(std::string_view key, Deadline deadline) {
  MutexLock lock(mutex_);
  for (;;) {
    if (const std::string* value = table_.find(key)) return *value;
    if (deadline.passed()) {
      return value_missing(key);
    }
    if (deadline.is_never()) {
      changed_.wait(mutex_);
    } else {
      changed_.wait_until(mutex_, deadline.when());
    }
  }
}

Result<int64_t> MemoryStore::add(std::string_view key, int64_t amount) {
  MutexLock lock(mutex_);
  auto sum = table_.add(key, amount);
  changed_.notify_all();
  return sum;
}

Status MemoryStore::remove(std::string_view key) {
  MutexLock lock(mutex_);
  table_.remove(key);
  return {};
}

}  // namespace rueda::core
