#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// A host and how many ranks it takes.
struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

/// Where one rank runs.
struct Placement {
  int rank = 0;
  int size = 1;
  std::string host;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  ///< number of this host among the hosts that have this local rank
  int cross_size = 1;
};

/// `a:2,b:4`; a host without a number has one slot. kInvalidArgument quotes what does not parse, or the host given
/// twice.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);
/// Lines `host slots=n`, `#` begins a comment. kInvalidArgument names the line.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text);

/// Fills the hosts in their order with ranks 0..processes-1. kInvalidArgument: more processes than slots; shows both.
Result<std::vector<Placement>> place(int processes, const std::vector<HostSlots>& hosts);

/// Whether a name means the machine we are on: localhost, a loopback address, or its own host name, short or full.
bool is_this_host(std::string_view name);

}  // namespace rueda::core::launcher
