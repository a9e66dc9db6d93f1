#pragma once
#include <sys/socket.h>
#include <sys/time.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/net/socket_address.h"

namespace rueda::test {

/// A blocking connection to a port of 127.0.0.1 on which a test says bytes of its own. Gives up reading after two
/// minutes.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{120, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const auto address = core::SocketAddress::parse("127.0.0.1", port).value();
    if (::connect(fd_.get(), address.raw(), address.bytes) != 0) fd_.reset();
  }
  bool connected() const { return fd_.valid(); }

  void say(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  /// No more will be said.
  void end() { ::shutdown(fd_.get(), SHUT_WR); }
  /// So many bytes, fewer where the other side ends before.
  std::string hear(size_t bytes) {
    std::string heard(bytes, '\0');
    size_t have = 0;
    for (ssize_t got; have < bytes && (got = ::recv(fd_.get(), heard.data() + have, bytes - have, 0)) > 0;) {
      have += static_cast<size_t>(got);
    }
    heard.resize(have);
    return heard;
  }
  /// Everything until the other side ends it.
  std::string hear_all() { return hear(1 << 16); }

 private:
  core::UniqueFd fd_;
};

}  // namespace rueda::test
