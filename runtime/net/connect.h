#pragma once
#include <span>
#include <string>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/loop_wait.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

/// A connection to the first of several addresses of one peer that answered.
struct Connected {
  UniqueFd fd;       ///< connected, non-blocking, closed on exec, without Nagle's algorithm
  size_t index = 0;  ///< which of the addresses it is
};

/// Why each of the addresses failed.
struct ConnectFailures {
  std::vector<std::string> reasons;  ///< one for each address, in order; empty if it has not answered yet
  bool all_refused = true;           ///< every address answered "connection refused"

  /// "10.0.0.1:4000: Connection refused; [fd00::1]:4000: no answer". `addresses` are those of the failed call.
  std::string text(std::span<const SocketAddress> addresses) const;
};

/// Connects to one of `addresses` and prefers the earlier ones: the next attempt begins when the one before has failed
/// or has been silent for a tenth of a second, and the first attempt that connects wins (RFC 8305). So an address that
/// leads nowhere costs a tenth of a second instead of a time-out. Blocks the thread that runs `wait.io`.
/// Returns kSystem if none has connected at the wait's deadline or every one has failed; `failures` then has the reason
/// of each. Returns the abort reason if the epoch ends.
Result<Connected> connect_first(const LoopWait& wait, std::span<const SocketAddress> addresses,
                                ConnectFailures& failures);
/// The same for a thread that runs no event loop.
Result<Connected> connect_first(std::span<const SocketAddress> addresses, Deadline deadline, ConnectFailures& failures);

}  // namespace rueda::core
