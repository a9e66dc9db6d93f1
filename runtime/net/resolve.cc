// Turns a host's name into addresses. Without a family in the hints the system's resolver mixes IPv4 and IPv6 in the
// order of RFC 6724, which is the order in which they are tried.
#include "runtime/net/resolve.h"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "runtime/base/shortage.h"

namespace rueda::core {

Result<std::vector<SocketAddress>> resolve(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? reason_of(errno) : ::gai_strerror(error);
    return Status(Code::kSystem, "host \"" + host + "\": " + why);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, ::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    SocketAddress address;
    address.bytes = std::min<socklen_t>(entry->ai_addrlen, sizeof(address.storage));
    std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), address.bytes,
                reinterpret_cast<char*>(&address.storage));
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace rueda::core
