#pragma once
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/tcp_transport.h"

namespace rueda::core {

/// The transports of `size` ranks of one job on 127.0.0.1, each with a coordinator thread that polls.
/// Use from the test's thread; channel sets from one thread per rank and lane. Ends with the object.
class TcpRanks {
 public:
  struct Options {
    bool keyed = true;
    bool encrypt_data = false;
    int sockets_per_peer = 1;
    bool one_host = false;  ///< else each rank has a host of its own
    uint64_t epoch = 1;
    bool control = false;                 ///< connect control links between rank 0 and all others first
    std::vector<uint8_t> key_seeds = {};  ///< by rank; empty: the same for all
  };
  explicit TcpRanks(int size) : TcpRanks(size, Options()) {}
  TcpRanks(int size, Options options);
  ~TcpRanks();

  int size() const { return static_cast<int>(ranks_.size()); }
  TcpTransport& transport(int rank) { return *ranks_[static_cast<size_t>(rank)].transport; }
  const TransportEpoch& epoch(int rank) const { return ranks_[static_cast<size_t>(rank)].epoch; }
  /// Ends one rank's coordinator thread and its transport, as a process that died would.
  void stop(int rank);

 private:
  struct Rank {
    TransportEpoch epoch;
    std::unique_ptr<TcpTransport> transport;
    UniqueFd bell;
    std::unique_ptr<std::atomic<bool>> stopping = std::make_unique<std::atomic<bool>>(false);
    std::thread coordinator;
  };
  void start(Rank& one);
  void connect_control();
  std::vector<Rank> ranks_;
};

/// A key that differs with `seed`.
std::array<uint8_t, 32> test_key(uint8_t seed);

}  // namespace rueda::core
