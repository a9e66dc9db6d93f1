#pragma once
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

/// Returns the numeric addresses to listen on, in the order in which peers on other hosts should try them; 127.0.0.1 is
/// last. `choice` is "auto" (every interface that is up, without loopback and link-local addresses) or a list separated
/// by commas of interface names, globs, numeric addresses and networks (10.1.0.0/16). An entry that this machine does
/// not have is skipped, so one list fits machines with different names.
/// Returns kInvalidArgument if an entry is malformed, or if this machine has none of the list; the sentence says what
/// it has. Returns kSystem if the kernel gives no interfaces.
Result<std::vector<std::string>> listen_addresses(const std::string& choice);

/// Returns the name of the interface that has this address ("eth0"), or an empty string.
std::string interface_of(const SocketAddress& address);

}  // namespace rueda::core
