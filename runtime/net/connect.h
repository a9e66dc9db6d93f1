#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/loop_wait.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

/// A connection to the first of several addresses of one peer.
struct Connected {
  UniqueFd fd;
  size_t index = 0;  ///< of the address
};

/// What became of the addresses that were tried.
struct ConnectFailures {
  std::vector<std::string> reasons;  ///< by their order; empty: it has not answered
  bool all_refused = true;           ///< each said "connection refused"
};

/// Connects to one of `addresses`, the earlier the better: each next one is tried as soon as the one before has failed
/// or kept silent for a tenth of a second, and the first that connects is taken (RFC 8305). So an address that leads
/// nowhere costs a tenth of a second and not a time-out. Blocks the thread that runs `wait.io`. kSystem: none connected
/// before the wait's deadline; `failures` has every one's reason. The abort reason if the epoch ends.
Result<Connected> connect_first(const LoopWait& wait, std::span<const SocketAddress> addresses,
                                ConnectFailures& failures);

}  // namespace rueda::core
