#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// A numeric IPv4 or IPv6 address with a port, in the kernel's form. A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  /// Returns kInvalidArgument if `address` is not numeric.
  static Result<SocketAddress> parse(const std::string& address, uint16_t port);
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  /// 127.0.0.0/8 or ::1.
  bool is_loopback() const;
  /// 10.0.0.1:4000, [fe80::1]:4000
  std::string text() const;
};

/// Makes a TCP socket that is closed on exec and non-blocking. Returns kSystem with address and errno.
Result<UniqueFd> open_tcp_socket(const SocketAddress& address);
/// Listens on `address`; with port 0 the kernel chooses one. Returns kSystem with call, address and errno.
Result<UniqueFd> listen_on(const SocketAddress& address);
/// The port a socket is bound to.
Result<uint16_t> bound_port(int fd);
/// `text()` of a socket's own address and of its peer's; "?" if the kernel does not say.
std::string own_address(int fd);
std::string peer_address(int fd);
/// Switches Nagle's algorithm off: a peer waits for every send.
void set_no_delay(int fd);
/// Lets the kernel ask an idle peer once a minute, so that no firewall on the way forgets the connection.
void keep_alive(int fd);

}  // namespace rueda::core
