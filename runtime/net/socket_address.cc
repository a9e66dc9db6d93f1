// Numeric addresses, and the calls that make sockets of them. Every socket is closed on exec and non-blocking from its
// creation: between socket() and a later fcntl() another thread could fork.
#include "runtime/net/socket_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <system_error>

#include "runtime/base/shortage.h"

namespace rueda::core {

namespace {

// Room for all peers of a large job that dial at once; the kernel caps it at net.core.somaxconn.
constexpr int kBacklog = 4096;

Status failed(const char* call, const SocketAddress& address) {
  return Status(Code::kSystem, std::string(call) + " on " + address.text() + ": " + reason_of(errno));
}

std::string name_of(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.bytes = sizeof(address.storage);
  return name(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.bytes) == 0 ? address.text() : "?";
}

}  // namespace

Result<SocketAddress> SocketAddress::parse(const std::string& address, uint16_t port) {
  SocketAddress result;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&result.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    result.bytes = sizeof(*v4);
  } else if (::inet_pton(AF_INET6, address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    result.bytes = sizeof(*v6);
  } else {
    return Status(Code::kInvalidArgument, "\"" + address + "\" is not a numeric IPv4 or IPv6 address");
  }
  return result;
}

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  return ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24 == 127;
}

std::string SocketAddress::text() const {
  char name[INET6_ADDRSTRLEN] = "?";
  if (family() == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr, name, sizeof(name));
    return "[" + std::string(name) + "]:" + std::to_string(port());
  }
  ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, name, sizeof(name));
  return std::string(name) + ":" + std::to_string(port());
}

Result<UniqueFd> open_tcp_socket(const SocketAddress& address) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!fd.valid()) return failed("socket", address);
  return fd;
}

Result<UniqueFd> listen_on(const SocketAddress& address) {
  auto fd = open_tcp_socket(address);
  if (!fd.ok()) return fd;
  const int socket = fd.value().get();
  const int on = 1;
  // Closed connections of an earlier program hold a port for a minute (TIME_WAIT). Two listeners still exclude each
  // other.
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address.family() == AF_INET6) ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (::bind(socket, address.raw(), address.bytes) != 0) return failed("bind", address);
  if (::listen(socket, kBacklog) != 0) return failed("listen", address);
  return fd;
}

Result<uint16_t> bound_port(int fd) {
  SocketAddress bound;
  bound.bytes = sizeof(bound.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes) != 0)
    return failed("getsockname", bound);
  return bound.port();
}

std::string own_address(int fd) { return name_of(fd, ::getsockname); }

std::string peer_address(int fd) { return name_of(fd, ::getpeername); }

void set_no_delay(int fd) {
  const int on = 1;
  // Other socket families refuse the option, which has no meaning for them.
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void keep_alive(int fd) {
  const int on = 1, idle_seconds = 60;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_seconds, sizeof(idle_seconds));
}

}  // namespace rueda::core
