#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace rueda::core {

/// A bidirectional byte stream to one peer. The channel set owns it, the holder of the lane's token uses it. Sends and
/// receives are queued and complete in order; their bounds need not match the peer's. The channel borrows a buffer
/// until `sent()` or `received()` has passed it. Bytes move inside `ChannelSet::until` and `poll`. One test suite runs
/// over every implementation (channel_suite_test.cc).
class Channel {
 public:
  virtual ~Channel() = default;
  /// Queues `bytes`, which may be empty. Never blocks.
  virtual void send(std::span<const std::byte> bytes) = 0;
  /// Queues a buffer into which the peer's next bytes go. Never blocks.
  virtual void receive(std::span<std::byte> bytes) = 0;
  /// How many bytes have moved since the channel was made: the buffers before that point are the caller's again.
  virtual uint64_t sent() const = 0;
  virtual uint64_t received() const = 0;
};

class Collectives;

/// The channels of one lane. The lane's mesh owns it, the holder of the lane's token uses it.
class ChannelSet {
 public:
  virtual ~ChannelSet() = default;
  /// Returns the channel to `rank` (of the epoch); which one may change with `use_sockets`. Connects on first use and
  /// blocks until then: the higher rank dials, the lower one waits. Returns kTimeout or kPeerLost with the addresses
  /// tried, or the abort reason.
  virtual Result<Channel*> to(int rank, Deadline deadline) = 0;
  /// How many sockets to a peer the batches from now on use, 0: what the settings say. All members of a batch give the
  /// same number, between batches. An implementation without sockets ignores it.
  virtual void use_sockets(int) {}
  /// Moves bytes until `ready()`. Returns the abort reason if the epoch ends, kPeerLost with the rank if a peer's
  /// stream breaks, kTimeout at the deadline. After a failure the set touches no queued buffer any more and moves
  /// nothing.
  virtual Status until(const std::function<bool()>& ready, Deadline deadline) = 0;
  /// A batch has failed, maybe elsewhere than in `until`: an implementation with a thread of its own touches no queued
  /// buffer any more once this returns, and moves nothing. Others touch none outside `until` and `poll`.
  virtual void give_up(const Status&) {}
  /// Moves the bytes that can move now. Never blocks. If a stream breaks here, the next `until` says so.
  virtual void poll() = 0;
  /// Returns false if a thread of the implementation moves all bytes, so that `poll` is of no use.
  virtual bool moves_in_poll() const { return true; }
  /// Makes a running `until` call its `ready` again. Any thread.
  virtual void wake() = 0;
  /// Returns the collectives of the library that moves the bytes, null if it has none for this lane.
  virtual Collectives* collectives() { return nullptr; }
};

}  // namespace rueda::core
