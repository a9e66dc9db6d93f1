// The live handles of a process. A forked child starts with a table of its own, with numbers from another range, so
// that a handle of its parent is an error there and not another operation.
#include "bindings/c/handle_table.h"

#include <atomic>
#include <new>
#include <utility>

#include "bindings/c/session.h"

namespace rueda::core {
namespace {

/// A process can use 2^40 numbers before they reach those of a child.
constexpr int kGenerationShift = 40;

}  // namespace

rueda_handle HandleTable::insert(std::shared_ptr<Operation> operation, std::shared_ptr<CompletionQueue> completions) {
  MutexLock lock(mutex_);
  if (2 * (live_ + 1) > slots_.size()) grow();
  do {
    ++last_;
  } while (slot_of(last_).number != 0);
  slot_of(last_) = {last_, std::move(operation), std::move(completions)};
  ++live_;
  return last_;
}

/// Handles in different slots stay in different ones: their numbers differ in bits that still count. Changes nothing
/// if there is no memory.
void HandleTable::grow() {
  std::vector<Slot> more(2 * slots_.size());
  for (Slot& slot : slots_) {
    if (slot.number != 0) more[static_cast<size_t>(slot.number) & (more.size() - 1)] = std::move(slot);
  }
  slots_.swap(more);
}

/// Puts a small table in the place of one that holds no handle, and returns the old one, which the caller frees without
/// the lock. Without memory nothing changes.
std::vector<HandleTable::Slot> HandleTable::shrink() noexcept {
  try {
    std::vector<Slot> fewest(kFewestSlots);
    slots_.swap(fewest);
    return fewest;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::shared_ptr<Operation> HandleTable::find(rueda_handle handle) {
  MutexLock lock(mutex_);
  const Slot& slot = slot_of(handle);
  return slot.number == handle ? slot.operation : nullptr;
}

std::shared_ptr<Operation> HandleTable::remove(rueda_handle handle) {
  Slot gone;
  std::vector<Slot> unused;
  {
    MutexLock lock(mutex_);
    Slot& slot = slot_of(handle);
    if (slot.number != handle || handle == 0) return nullptr;
    std::swap(gone, slot);
    // Memory that a wave of handles took goes with the last of them, if there is memory for the usual table.
    if (--live_ == 0 && slots_.size() > kMostKept) unused = shrink();
  }
  if (gone.completions != nullptr) gone.completions->withdraw(handle);
  return std::move(gone.operation);
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
