#pragma once
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

/// Numeric addresses of this machine to listen on, in order of preference for peers on other hosts; 127.0.0.1 last.
/// `choice`: "auto" (every interface that is up, without loopback and link-local addresses), or interface names, globs
/// of them, numeric addresses and networks (10.1.0.0/16), separated by commas; each counts where this machine has it,
/// so that one list fits machines with different names. kInvalidArgument: it has nothing of the list; says what it has.
Result<std::vector<std::string>> listen_addresses(const std::string& choice);

/// The name of the interface that has this address ("eth0"), or empty.
std::string interface_of(const SocketAddress& address);

}  // namespace rueda::core
