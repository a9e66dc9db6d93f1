#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// The addresses at which a job's store listens, and which of them each host tries.
struct StoreRoutes {
  std::vector<std::string> listen;
  std::vector<std::vector<std::string>> of_host;  ///< by host, in the order in which to try them
};

/// What one host knows of hvdrun's machine.
struct HostView {
  bool here = false;        ///< the host is hvdrun's machine
  std::string our_address;  ///< the address from which our ssh reached it; unknown if empty or not one of ours
};

/// Chooses no more addresses than needed: 127.0.0.1 for this machine; for another host the address from which ssh
/// reached it if that is one of `own`, else all of `own`. `own` holds this machine's numeric addresses in order of
/// preference, without loopback. Returns kInvalidArgument if there is another host and `own` is empty. Pure.
Result<StoreRoutes> plan_store_routes(const std::vector<std::string>& own, const std::vector<HostView>& hosts);

/// Returns "10.0.0.1:4000" or "[fd00::1]:4000".
std::string with_port(const std::string& numeric, uint16_t port);

/// A connection that was made.
struct WorkingPath {
  std::string to;    ///< one of the candidates
  std::string from;  ///< our own address of the connection
};
/// Connects to the first of `candidates` (address:port, numeric) that answers, as `connect_first` does. Blocks.
/// Returns kSystem if none answered within `limit`; the sentence names `what` and gives the reason of each candidate.
Result<WorkingPath> find_path(const std::vector<std::string>& candidates, std::chrono::milliseconds limit,
                              const char* what);

/// Returns a socket that listens on every address of this machine, IPv4 and, if the machine has it, IPv6. It accepts no
/// connection: a peer that can connect knows that the path is open. Invalid if no socket can listen.
UniqueFd listen_anywhere();
/// Returns 0 if the socket is invalid.
uint16_t listening_port(const UniqueFd& socket);

}  // namespace rueda::core::launcher
