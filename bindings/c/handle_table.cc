// The live handles of a process. A forked child starts with a table of its own, with numbers from another range, so
// that a handle of its parent is an error there and not another operation.
#include "bindings/c/handle_table.h"

#include <atomic>

#include "bindings/c/session.h"

namespace rueda::core {
namespace {

/// A process can hand out 2^40 handles before its numbers reach those of a child.
constexpr int kGenerationShift = 40;

}  // namespace

rueda_handle HandleTable::insert(std::shared_ptr<Operation> operation, std::shared_ptr<CompletionQueue> completions) {
  MutexLock lock(mutex_);
  ++last_;
  if (spare_.empty()) {
    live_.emplace(last_, Live{std::move(operation), std::move(completions)});
  } else {
    spare_.next().key() = last_;
    const auto entered = live_.insert(std::move(spare_.next()));  // a new number, so it is not there yet
    entered.position->second = {std::move(operation), std::move(completions)};
    spare_.drop();
  }
  return last_;
}

std::shared_ptr<Operation> HandleTable::find(rueda_handle handle) const {
  MutexLock lock(mutex_);
  const auto found = live_.find(handle);
  return found == live_.end() ? nullptr : found->second.operation;
}

std::shared_ptr<Operation> HandleTable::remove(rueda_handle handle) {
  Live gone;
  {
    MutexLock lock(mutex_);
    const auto found = live_.find(handle);
    if (found == live_.end()) return nullptr;
    gone = std::move(found->second);
    spare_.keep(live_.extract(found));
  }
  if (gone.completions != nullptr) gone.completions->withdraw(handle);
  return gone.operation;
}

HandleTable& handles() {
  // Never destroyed. Nor does a child use or destroy its parent's table: another thread may have held its mutex at the
  // fork.
  static std::atomic<HandleTable*> table{new HandleTable(0)};
  static std::atomic<uint64_t> owner{0};
  const uint64_t process = process_generation();
  if (owner.load() != process && owner.exchange(process) != process) {
    table.store(new HandleTable(static_cast<rueda_handle>(process << kGenerationShift)));
  }
  return *table.load();
}

}  // namespace rueda::core
