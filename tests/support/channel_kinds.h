#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/net/channel.h"

namespace rueda::core {

/// Ranks whose lane 0 is joined by one implementation of `Channel` and `ChannelSet`.
class ChannelRanks {
 public:
  virtual ~ChannelRanks() = default;
  /// The set of one rank; ends before this. `abort` outlives it.
  virtual std::unique_ptr<ChannelSet> set(int rank, const Abort& abort) = 0;
  /// Wakes every wait, after an abort was raised.
  virtual void wake_all() = 0;
};

/// One implementation.
struct ChannelKind {
  const char* name;
  bool sees_a_close;  ///< a set that a peer destroys breaks the channels to it
  std::unique_ptr<ChannelRanks> (*make)(int size);
};

/// Every implementation that runs in one process: one TCP connection for each peer, plain and over TLS; one
/// without a key; three of them with the stream striped over them, plain and over TLS; a fabric whose bytes travel in
/// memory.
const std::vector<ChannelKind>& channel_kinds();

/// The first `bytes` bytes of the stream from one rank to another, by a formula over position and ends.
std::vector<std::byte> stream_bytes(size_t bytes, int from, int to);
/// Sends `bytes` bytes to every other one of `size` ranks and receives as many, all at once. Returns the first failure;
/// kMismatch names a peer whose bytes are wrong.
Status exchange_all(ChannelSet& set, int rank, int size, size_t bytes);
/// Runs `body(rank)` on a thread of its own for each rank. Returns the failures' sentences, "" if there are none.
std::string failures_on_all(int size, const std::function<Status(int rank)>& body);

}  // namespace rueda::core
