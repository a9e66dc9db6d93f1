#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// A bidirectional byte stream to one peer, owned by a lane. Sends and receives are queued and complete in order; the
/// spans are borrowed until `sent()` or `received()` has passed them. Progress happens inside `ChannelSet::until`.
class Channel {
 public:
  virtual ~Channel() = default;
  virtual void send(std::span<const std::byte> bytes) = 0;
  /// Received straight into `bytes`.
  virtual void receive(std::span<std::byte> bytes) = 0;
  /// Totals since the channel was made, in bytes.
  virtual uint64_t sent() const = 0;
  virtual uint64_t received() const = 0;
};

class Collectives;

/// The channels of one lane. Owned and used by the holder of the lane's token.
class ChannelSet {
 public:
  virtual ~ChannelSet() = default;
  /// The channel to `rank` (of the epoch), connected on first use: the higher rank dials, the lower one waits to be
  /// dialled. Blocks until then. kTimeout, kPeerLost (with the addresses tried), or the abort reason.
  virtual Result<Channel*> to(int rank, Deadline deadline) = 0;
  /// Moves bytes until `ready()`. The abort reason if the epoch ends, kPeerLost (naming the rank) if a peer's stream
  /// breaks, kTimeout at the deadline. After a failure nothing that is still queued is touched any more, and the set is
  /// of no use.
  virtual Status until(const std::function<bool()>& ready, Deadline deadline) = 0;
  /// Moves what moves without waiting. A stream that breaks here shows in the next `until`.
  virtual void poll() = 0;
  /// Whether `poll` moves anything: else another thread does, unasked.
  virtual bool moves_in_poll() const { return true; }
  /// Makes an `until` look at its `ready` again. Any thread.
  virtual void wake() = 0;
  /// Where the channels are a library's that has collectives of its own for this lane; else null.
  virtual Collectives* collectives() { return nullptr; }
};

}  // namespace rueda::core
