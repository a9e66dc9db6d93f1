#include "bindings/c/handle_table.h"

#include <atomic>

#include "bindings/c/session.h"

namespace rueda::core {
namespace {

/// So many handles has a process before its numbers meet those of a child.
constexpr int kGenerationShift = 40;

}  // namespace

rueda_handle HandleTable::insert(Submitted submitted, std::shared_ptr<CompletionQueue> completions) {
  MutexLock lock(mutex_);
  live_.emplace(++last_, Live{std::move(submitted), std::move(completions)});
  return last_;
}

Submitted HandleTable::find_submitted(rueda_handle handle) const {
  MutexLock lock(mutex_);
  const auto found = live_.find(handle);
  return found == live_.end() ? Submitted() : found->second.submitted;
}

std::shared_ptr<Operation> HandleTable::remove(rueda_handle handle) {
  Live gone;
  {
    MutexLock lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    gone = std::move(found->second);
    live_.erase(found);
  }
  if (gone.completions != nullptr) gone.completions->withdraw(handle);
  return gone.submitted.operation;
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
