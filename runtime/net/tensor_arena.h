#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/block_map.h"

namespace rueda::core {

/// Memory for one rank's tensors that the other ranks of its host map: they read and write it while a batch runs.
///
///   owner   sparse memfd of the budget's size, sealed ─▶ mapped ─▶ blocks, with pages from `take` to `give_back`
///   peer    descriptor ─▶ size and seals ─▶ mapped whole; pages come with use
///
/// Address space is all that the unused part costs. An address in it is (arena of a rank, offset) on every rank.
///
/// A peer may be stopped in the middle of a batch and go on after the owner has given that batch up. So the owner takes
/// what such a batch was to write out of the shared file (`revoke`) before it reports the failure: from then on the
/// addresses are private memory.
///
/// The child of a fork sees the same bytes through a private mapping and cannot write to the parent's. Two ranks of one
/// process share one object, which race detectors need; `enter` and `leave` protect them from each other.
class TensorArena {
 public:
  /// `bytes` is rounded up to whole huge pages. Returns kSystem with the call and errno if memfd_create, seals or the
  /// address space are refused.
  static Result<std::shared_ptr<TensorArena>> create(size_t bytes);
  /// The arena of another rank. `fd` stays the caller's. Returns kSystem with `rank` if it is not a sealed memory file,
  /// or if there is no address space for it.
  static Result<std::shared_ptr<TensorArena>> map(int fd, int rank);
  ~TensorArena();
  TensorArena(const TensorArena&) = delete;
  TensorArena& operator=(const TensorArena&) = delete;

  /// The descriptor to pass to peers; -1 if this is a peer's.
  int fd() const { return fd_.get(); }
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  /// Whether all `bytes` from `at` on lie in it. Any thread.
  bool contains(const std::byte* at, size_t bytes) const {
    const size_t offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(base_);
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }

  /// Takes a block of zeros in whole pages, allocated in full, on the NUMA node of the calling thread. Only the owner.
  /// Any thread. Returns kSystem if the budget, a control group's limit or the machine has no room; the sentence says
  /// which.
  Result<std::byte*> take(size_t bytes) RUEDA_EXCLUDES(mutex_);
  /// Gives back a block of `take`; its pages return to the machine. In a forked child this touches nothing of the
  /// parent's. Any thread.
  void give_back(std::byte* block) RUEDA_EXCLUDES(mutex_);
  /// Bytes of blocks that are taken. Any thread.
  size_t taken_bytes() const RUEDA_EXCLUDES(mutex_);

  /// Makes the memory of `spans` private, so that no peer reaches it any more, and closes the arena: `enter` fails from
  /// now on. The content of the spans is lost; what else lies on their pages stays, also if other threads are writing
  /// it. Waits for ranks of this process that are inside. Only the owner. Any thread. Ends the process if the kernel
  /// refuses, because other ranks could then write into memory that the caller may use again.
  void revoke(std::span<const std::span<std::byte>> spans) noexcept RUEDA_EXCLUDES(mutex_);

  /// A rank of this process reads or writes the arena for a batch between the two. Never waits for a peer in between.
  /// Returns false if the owner, in this process, has revoked something.
  bool enter() RUEDA_EXCLUDES(mutex_);
  void leave() RUEDA_EXCLUDES(mutex_);

 private:
  friend class LiveArenas;
  struct Range {
    size_t begin;
    size_t end;
  };
  TensorArena(UniqueFd fd, std::byte* base, size_t bytes, uint64_t device, uint64_t inode);
  /// Whether a forked child inherited this object: then the mapping, if there is one, is the child's own.
  bool inherited() const;
  void make_private(Range range) RUEDA_REQUIRES(mutex_);
  void detach(Range pages, std::span<const Range> parts) RUEDA_REQUIRES(mutex_);
  bool is_revoked(Range range) const RUEDA_REQUIRES(mutex_);
  /// In the child of a fork, which holds all locks: private mappings of everything that is shared.
  void isolate() RUEDA_REQUIRES(mutex_);

  UniqueFd fd_;
  const bool own_;
  std::byte* const base_;
  const size_t bytes_;
  const uint64_t device_, inode_;
  const int process_;
  mutable Mutex mutex_;
  Condition left_;
  BlockMap blocks_ RUEDA_GUARDED_BY(mutex_);
  std::vector<Range> revoked_ RUEDA_GUARDED_BY(mutex_);  ///< in whole pages, by offset, apart from each other
  int inside_ RUEDA_GUARDED_BY(mutex_) = 0;
  bool closed_ RUEDA_GUARDED_BY(mutex_) = false;
};

/// Holds arenas entered for a scope: those of a batch's members.
class ArenaVisit {
 public:
  /// `arenas` outlive the visit.
  explicit ArenaVisit(std::span<TensorArena* const> arenas) {
    for (TensorArena* arena : arenas) {
      if (!arena->enter()) {
        refused_ = true;
        return;
      }
      entered_.push_back(arena);
    }
  }
  ~ArenaVisit() {
    for (TensorArena* arena : entered_) arena->leave();
  }
  ArenaVisit(const ArenaVisit&) = delete;
  ArenaVisit& operator=(const ArenaVisit&) = delete;
  /// Whether some arena is closed. Then nothing of the batch may be touched.
  bool refused() const { return refused_; }

 private:
  std::vector<TensorArena*> entered_;
  bool refused_ = false;
};

}  // namespace rueda::core
