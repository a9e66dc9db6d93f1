#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "runtime/base/abort.h"
#include "runtime/base/mutex.h"
#include "runtime/net/channel.h"

namespace rueda::core {

/// The channels of one lane between ranks as threads, without sockets: bytes go straight from the sender's span into
/// the receiver's, and only once both are queued. Nothing is buffered on the way, so a row that waits in the wrong
/// order stands still instead of being saved by a kernel's buffer. Shared by the sets; any thread.
class MemoryHub {
 public:
  /// kCounts: nothing is touched, only counted, so that spans may be larger than any memory.
  enum class Moves { kBytes, kCounts };
  explicit MemoryHub(Moves moves = Moves::kBytes) : moves_(moves) {}
  /// The set of one rank; ends before the hub. `abort` outlives it.
  std::unique_ptr<ChannelSet> channel_set(int rank, const Abort& abort);
  /// After an abort was raised.
  void wake_all() RUEDA_EXCLUDES(mutex_);
  /// Bytes that have moved from one rank to another.
  uint64_t moved(int from, int to) const RUEDA_EXCLUDES(mutex_);

 private:
  friend class MemoryChannel;
  friend class MemoryChannelSet;
  /// One direction between two ranks.
  struct Pipe {
    std::deque<std::span<const std::byte>> sending;
    std::deque<std::span<std::byte>> receiving;
    uint64_t moved = 0;
  };
  Pipe& pipe(int from, int to) RUEDA_REQUIRES(mutex_) { return pipes_[{from, to}]; }
  void move(Pipe& pipe) RUEDA_REQUIRES(mutex_);
  /// Drops what `rank` has queued.
  void forget(int rank) RUEDA_EXCLUDES(mutex_);

  const Moves moves_;
  mutable Mutex mutex_;
  Condition changed_;
  uint64_t changes_ RUEDA_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<int, int>, Pipe> pipes_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
