#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Where the store of a job over several hosts listens, and which of that each host is told.
struct StoreRoutes {
  std::vector<std::string> listen;
  std::vector<std::vector<std::string>> of_host;  ///< by host, in the order in which to try
};

/// How hvdrun's own machine looks from one host.
struct HostView {
  bool here = false;        ///< it is this machine
  std::string our_address;  ///< of ours, as its ssh came from there; empty or not ours: unknown
};

/// No more addresses than are needed: 127.0.0.1 for this machine; for another the address that ssh came from, if it is
/// one of `own` (numeric, in order of preference, no loopback), else all of `own`. kInvalidArgument: there is another
/// host and `own` is empty. Pure.
Result<StoreRoutes> plan_store_routes(const std::vector<std::string>& own, const std::vector<HostView>& hosts);

/// "10.0.0.1:4000", "[fd00::1]:4000"
std::string with_port(const std::string& numeric, uint16_t port);

/// A way that works.
struct WorkingPath {
  std::string to;    ///< one of the candidates
  std::string from;  ///< our address on it
};
/// Connects to the first of `candidates` (address:port, numeric) that answers, as `connect_first` does. Blocks.
/// Returns kSystem if none answered within `limit`; the sentence names `what` and gives the reason of each candidate.
Result<WorkingPath> find_path(const std::vector<std::string>& candidates, std::chrono::milliseconds limit,
                              const char* what);

/// A socket that listens on every address of this machine, IPv4 and IPv6 where there is that, and takes nobody: who
/// connects knows that the way is open. Not valid: there is none to be had.
UniqueFd listen_anywhere();
/// 0: it is not valid.
uint16_t listening_port(const UniqueFd& socket);

}  // namespace rueda::core::launcher
