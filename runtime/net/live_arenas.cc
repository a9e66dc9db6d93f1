// What a fork does to arenas. The handlers hold every lock across the fork, so that the child finds lists and blocks as
// some thread left them, not in the middle of a change:
//
//   prepare: lock the list, then each arena ─▶ fork ─▶ parent: unlock
//                                                  └─▶ child: map everything privately, unlock, forget
//
// The child does this before `fork` returns in it, so no code of the program runs while its addresses are still the
// parent's pages. It uses system calls only: another thread may have held the allocator's lock.
#include "runtime/net/live_arenas.h"

#include <pthread.h>

#include <algorithm>

namespace rueda::core {

LiveArenas& LiveArenas::get() {
  static auto* const arenas = new LiveArenas;  // never destroyed: tensors may outlive static destructors
  return *arenas;
}

LiveArenas::LiveArenas() {
  static_cast<void>(::pthread_atfork([] { get().lock_all(); }, [] { get().unlock_all(); },
                                     [] {
                                       get().isolate_all();
                                       get().unlock_all();
                                     }));
}

void LiveArenas::add(const std::shared_ptr<TensorArena>& arena) {
  MutexLock lock(mutex_);
  entries_.push_back({arena.get(), arena});
}

void LiveArenas::forget(const TensorArena* arena) {
  MutexLock lock(mutex_);
  std::erase_if(entries_, [arena](const Entry& entry) { return entry.arena == arena; });
}

std::shared_ptr<TensorArena> LiveArenas::find(uint64_t device, uint64_t inode) {
  MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    const TensorArena& arena = *entry.arena;
    if (arena.device_ == device && arena.inode_ == inode && !arena.inherited()) return entry.shared.lock();
  }
  return nullptr;
}

void LiveArenas::lock_all() {
  mutex_.lock();
  for (const Entry& entry : entries_) entry.arena->mutex_.lock();
}

void LiveArenas::unlock_all() {
  for (const Entry& entry : entries_) entry.arena->mutex_.unlock();
  mutex_.unlock();
}

void LiveArenas::isolate_all() {
  for (const Entry& entry : entries_) entry.arena->isolate();
}

}  // namespace rueda::core
