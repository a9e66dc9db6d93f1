#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/socket_address.h"

namespace rueda::core {

/// Returns all addresses of a host's name or numeric address, at least one, in the order of the system's resolver.
/// Blocks as long as the resolver does. Returns kSystem with the resolver's sentence if it fails.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

}  // namespace rueda::core
