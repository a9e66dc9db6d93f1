#include "bindings/c/handle_table.h"

namespace rueda::core {

rueda_handle HandleTable::insert(std::shared_ptr<Operation> operation) {
  MutexLock lock(mutex_);
  operations_.emplace(++last_, std::move(operation));
  return last_;
}

std::shared_ptr<Operation> HandleTable::find(rueda_handle handle) const {
  MutexLock lock(mutex_);
  const auto found = operations_.find(handle);
  return found == operations_.end() ? nullptr : found->second;
}

std::shared_ptr<Operation> HandleTable::remove(rueda_handle handle) {
  MutexLock lock(mutex_);
  const auto found = operations_.find(handle);
  if (found == operations_.end()) return nullptr;
  std::shared_ptr<Operation> operation = std::move(found->second);
  operations_.erase(found);
  return operation;
}

HandleTable& handles() {
  static auto* table = new HandleTable;
  return *table;
}

}  // namespace rueda::core
