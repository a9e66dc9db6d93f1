#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "runtime/base/unique_fd.h"

namespace rueda::test {

/// A TCP port of 127.0.0.1 that the kernel gives to no other program while this object lives. One program may still
/// listen there if it sets SO_REUSEADDR, as Rueda's servers do: this socket sets it too, and does not listen. Until
/// then a connection to the port is refused. Throws std::runtime_error if there is no port.
class ReservedPort {
 public:
  ReservedPort() {
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const int fd = socket_.get();
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 || bind(fd, any, length) != 0 ||
        getsockname(fd, any, &length) != 0)
      throw std::runtime_error(std::string("no port can be reserved: ") + std::strerror(errno));
    number_ = ntohs(address.sin_port);
  }
  uint16_t number() const { return number_; }

 private:
  core::UniqueFd socket_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t number_ = 0;
};

}  // namespace rueda::test
