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
  std::string user = {};  ///< whom ssh is to log in as; empty: as ssh itself says
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

/// What runs on one host.
struct HostShare {
  HostSlots host;
  bool here = false;  ///< it is this machine, and its ranks run as our user
  std::vector<Placement> ranks;
};

/// `a:2,user@b:4,[fd00::1]:2`; a host without a number has one slot. Names and users consist of letters, digits and
/// `._-`, addresses also of `:%`, none begins with `-`: they become words of a command. kInvalidArgument quotes what
/// does not parse, or the host given twice.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);
/// Lines `host slots=n`, `#` begins a comment. kInvalidArgument names the line.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text);

/// Fills the hosts in their order with ranks 0..processes-1. kInvalidArgument: more processes than slots; shows both.
Result<std::vector<Placement>> place(int processes, const std::vector<HostSlots>& hosts);

/// Whether a name means the machine we are on: localhost, a loopback address, its own host name, short or full, or an
/// address of one of its interfaces. A name that is ours but for its domain is looked up (which may block): it means us
/// if it has one of our addresses, or if nobody knows it.
bool is_this_host(const std::string& name);

/// Whether it is the name of the user whom we run as.
bool is_this_user(const std::string& name);

/// The hosts that got ranks, in their order.
std::vector<HostShare> share_out(const std::vector<HostSlots>& hosts, const std::vector<Placement>& placements);

}  // namespace rueda::core::launcher
