#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/net/socket_address.h"

namespace rueda::core {

/// All addresses of a host's name or numeric address, at least one, as the system's resolver orders them. Blocks as
/// long as that does. kSystem: the resolver's sentence.
Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port);

}  // namespace rueda::core
