#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/cutoff.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/hello.h"
#include "runtime/net/segment.h"
#include "runtime/net/tensor_arena.h"

namespace rueda::core {

/// A rank of this host: the descriptors that it passed.
struct LocalPeer {
  int rank = 0;
  std::shared_ptr<Segment> segment;
  std::shared_ptr<TensorArena> arena;  ///< for its tensors; null if it has none, or this process cannot map it
  UniqueFd doorbell;                   ///< its coordinator's eventfd; writing 1 wakes it
  UniqueFd pidfd;  ///< readable once the process is gone; -1 if the kernel has none or the peer is in this process
  UniqueFd life;  ///< the socket the descriptors came over: ends when the process, or the rank in this process, is gone
};

/// The outcome with one peer. If not ok, the two share no memory and use TCP; the sentence says why. Both sides of a
/// pair report the same unless one of them dies or times out meanwhile.
struct LocalOutcome {
  int rank = 0;
  Status status;
  LocalPeer peer;  ///< only when ok
};

/// A rank that may be on this host, and the socket name it published.
struct LocalCandidate {
  int rank = 0;
  std::string unix_name;
};

/// What a rank gives to each peer. `exchange` borrows it.
struct LocalOffer {
  Segment& segment;                    ///< its own, of `Segment::create`
  int doorbell;                        ///< its coordinator's eventfd
  const TensorArena* arena = nullptr;  ///< null: none
};

/// Passes descriptors between the ranks of one host over an abstract Unix socket (SOCK_SEQPACKET) with a random 128-bit
/// name: nothing lies in the file system and nothing needs removing. The higher rank dials. Before a descriptor is sent
/// each side checks the peer's user (SO_PEERCRED) and the keyed hello. Then both pass segment, eventfd, their own pidfd
/// and the arena for tensors, map what came, and tell each other whether it worked.
///
/// The thread that forms the epoch uses it. Owns its listening socket.
class LocalExchange {
 public:
  /// Returns kSystem with the call that failed.
  static Result<LocalExchange> listen();
  /// The name to publish, without the NUL byte that makes it abstract.
  const std::string& name() const { return name_; }
  /// Meets every peer; `scope.rank` is not among them. Blocks until each has succeeded or failed, at most until the
  /// deadline. A peer that is dead or in another network namespace fails at once. Strangers that connect are dropped
  /// after 2 s, or the oldest when 64 are pending, and delay no peer for longer. Returns the outcomes in the order of
  /// `peers`; kSystem if poll or accept failed for lack of memory or descriptors; the reason of `cutoff`, unless that
  /// is null, as soon as it is raised.
  Result<std::vector<LocalOutcome>> exchange(const HelloScope& scope, const LocalOffer& offer,
                                             std::span<const LocalCandidate> peers, Deadline deadline,
                                             const Cutoff* cutoff = nullptr);

 private:
  LocalExchange(UniqueFd listener, std::string name) : listener_(std::move(listener)), name_(std::move(name)) {}
  UniqueFd listener_;
  std::string name_;
};

}  // namespace rueda::core
