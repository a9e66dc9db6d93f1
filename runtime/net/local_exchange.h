#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/hello.h"
#include "runtime/net/segment.h"

namespace rueda::core {

/// A rank of this host, as descriptors that really passed.
struct LocalPeer {
  int rank = 0;
  std::shared_ptr<Segment> segment;
  UniqueFd doorbell;  ///< its coordinator's eventfd; writing 1 wakes it
  UniqueFd pidfd;  ///< readable when the process is gone; -1 where the kernel has none or the peer is in this process
  UniqueFd life;   ///< the stream the descriptors came over: EOF when the process (or the in-process rank) has gone
};

/// How it went with one peer. Not ok: no memory is shared with it, use TCP; the sentence says why.
/// Both sides of a pair report the same, unless one of them dies or times out meanwhile.
struct LocalOutcome {
  int rank = 0;
  Status status;
  LocalPeer peer;  ///< only when ok
};

/// A rank that may be of this host, as it published itself.
struct LocalCandidate {
  int rank = 0;
  std::string unix_name;
};

/// What a rank gives to each peer. Borrowed during `exchange`.
struct LocalOffer {
  Segment& segment;  ///< its own, of `Segment::create`
  int doorbell;      ///< its coordinator's eventfd
};

/// How the ranks of one host pass descriptors: an abstract Unix socket (SOCK_SEQPACKET) with a random 128-bit name, so
/// that nothing lies in the file system and nothing needs removing. The higher rank dials. Before a descriptor is sent
/// each side checks SO_PEERCRED (the same user) and the keyed hello. Then both pass segment, eventfd and their own
/// pidfd, map what they got, and tell each other whether it worked.
///
/// Used by the one thread that forms the epoch. Owns its listening socket.
class LocalExchange {
 public:
  /// kSystem: says which call failed.
  static Result<LocalExchange> listen();
  /// To publish: hex digits, without the NUL byte that makes the name abstract.
  const std::string& name() const { return name_; }
  /// Meets every peer; `scope.rank` may not be among them. Blocks until each has succeeded or failed, or the deadline.
  /// Peers in another network namespace, or dead, fail at once. Strangers that connect are dropped after 2 s, or when
  /// 64 are pending, and never delay peers for longer. Outcomes in the order of `peers`. kSystem: poll or accept
  /// failed, for want of memory or descriptors.
  Result<std::vector<LocalOutcome>> exchange(const HelloScope& scope, const LocalOffer& offer,
                                             std::span<const LocalCandidate> peers, Deadline deadline);

 private:
  LocalExchange(UniqueFd listener, std::string name) : listener_(std::move(listener)), name_(std::move(name)) {}
  UniqueFd listener_;
  std::string name_;
};

}  // namespace rueda::core
