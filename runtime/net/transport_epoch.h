#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/rank_ranges.h"
#include "runtime/base/secret_key.h"
#include "runtime/net/hello.h"

namespace rueda::core {

/// The addresses of one rank, and the host and pid that error sentences name.
struct PeerAddress {
  std::string host;  ///< the launcher's name for its host
  int64_t pid = 0;
  std::vector<std::string> addresses;  ///< numeric, tried in this order
  uint16_t port = 0;
};

/// What the sockets of one epoch need to know. A value.
struct TransportEpoch {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;
  SecretKey key{};
  bool keyed = false;              ///< false only with RUEDA_INSECURE=1: control connections are plain
  bool encrypt_data = false;       ///< RUEDA_TLS=all; needs a key
  int sockets_per_peer = 1;        ///< data connections of a lane to a peer; the same on all ranks
  std::vector<PeerAddress> ranks;  ///< by rank, own included
  /// For how long a peer may accept a connection and not prove itself. 0: for ever.
  std::chrono::nanoseconds unproven_limit = std::chrono::seconds(30);
  std::vector<int64_t> workers = {};  ///< by rank, for sentences; empty unless the job is elastic

  int size() const { return static_cast<int>(ranks.size()); }
  const PeerAddress& peer(int other) const { return ranks[static_cast<size_t>(other)]; }
  HelloScope hello_scope() const { return {job, epoch, rank, size(), keyed ? key : SecretKey(), {}}; }
  /// As `rank_name`: "rank 3 (host b, pid 77)".
  std::string name_of(int other) const {
    const auto at = static_cast<size_t>(other);
    return rank_name(other, peer(other).host, peer(other).pid, at < workers.size() ? workers[at] : -1);
  }
};

/// The first byte of every connection says what follows.
inline constexpr char kPurposeControl = 'C';
inline constexpr char kPurposeData = 'D';
/// A data connection's number in its hello holds its lane and its index among the lane's connections to this peer:
/// index * kMostLanes + lane.
inline constexpr uint32_t kMostLanes = 1024;
inline constexpr uint32_t kMostSocketsPerPeer = 16;
constexpr uint32_t data_number(uint32_t lane, uint32_t socket) { return socket * kMostLanes + lane; }

/// The listener's last byte of a handshake: it holds the connection for the dialler, which may use it now.
inline constexpr char kAccepted = 'A';

}  // namespace rueda::core
