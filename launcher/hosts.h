#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// A host and how many ranks it can take.
struct HostSlots {
  std::string name;
  int slots = 1;
  std::string user = {};  ///< login name for ssh; empty if ssh's configuration decides
  bool operator==(const HostSlots&) const = default;
};

/// The host of one rank, and its rank and size in three groups: the job, its host, and across hosts.
struct Placement {
  int rank = 0;
  int size = 1;
  std::string host;
  int local_rank = 0;
  int local_size = 1;
  int cross_rank = 0;  ///< index of this host among the hosts that have this local rank
  int cross_size = 1;
};

/// The ranks of one host.
struct HostShare {
  HostSlots host;
  bool here = false;  ///< true if it is this machine and its ranks run as our user
  std::vector<Placement> ranks;
};

/// Reads `a:2,user@b:4,[fd00::1]:2`; a host without a number has one slot. Names and users consist of letters, digits
/// and `._-`, addresses also of `:%`. None may begin with `-`, because they become words of a command. Returns
/// kInvalidArgument, quoting the entry that does not parse or the host that is given twice.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text);
/// Reads lines `host slots=n`; `#` begins a comment. Returns kInvalidArgument with the number of the line.
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text);

/// Reads what a host discovery script prints: a line `host` or `host:slots` for each host, with blank lines between as
/// it likes; a host without a number has `slots`. May be empty. Returns kInvalidArgument with the number of the line.
Result<std::vector<HostSlots>> parse_discovered_hosts(std::string_view text, int slots);

/// Fills the hosts in their order with ranks 0..processes-1. Returns kInvalidArgument with both numbers if there are
/// more processes than slots.
Result<std::vector<Placement>> place(int processes, const std::vector<HostSlots>& hosts);

/// Returns whether a name means this machine: localhost, a loopback address, its own host name, short or full, or an
/// address of one of its interfaces. Looks up a name that differs from ours only in its domain, which may block: such a
/// name means this machine if it has one of our addresses, or if it is short for ours and the resolver does not know
/// it.
bool is_this_host(const std::string& name);

/// Returns whether this process runs as the user of this name.
bool is_this_user(const std::string& name);

/// Returns the share of a host without ranks. May block as `is_this_host` does.
HostShare share_of(const HostSlots& host);

/// Returns the hosts that got ranks, in their order, each with its ranks. May block as `is_this_host` does.
std::vector<HostShare> share_out(const std::vector<HostSlots>& hosts, const std::vector<Placement>& placements);

}  // namespace rueda::core::launcher
