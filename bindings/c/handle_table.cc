#include "bindings/c/handle_table.h"

#include <atomic>

#include "bindings/c/session.h"

namespace rueda::core {
namespace {

/// So many handles has a process before its numbers meet those of a child.
constexpr int kGenerationShift = 40;

}  // namespace

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
  // Never destroyed, nor is the parent's table in a child: another thread may have held its mutex when it was forked.
  static std::atomic<HandleTable*> table{new HandleTable(0)};
  static std::atomic<uint64_t> owner{0};
  const uint64_t process = process_generation();
  if (owner.load() != process && owner.exchange(process) != process) {
    table.store(new HandleTable(static_cast<rueda_handle>(process << kGenerationShift)));
  }
  return *table.load();
}

}  // namespace rueda::core
