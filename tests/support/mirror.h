#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>

#include "runtime/net/socket_address.h"

namespace rueda::test {

/// Listens on 127.0.0.1 and sends back whatever it is told, or `words` whatever it is told, one connection after the
/// other, on a thread of its own.
class Mirror {
 public:
  explicit Mirror(std::string words = {}) : words_(std::move(words)), thread_([this] { reflect(); }) {}
  ~Mirror() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // ends accept
    thread_.join();
  }
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;
  uint16_t port() const { return core::bound_port(listening_.get()).value(); }

 private:
  static core::UniqueFd blocking_listener() {
    core::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto any = core::SocketAddress::parse("127.0.0.1", 0).value();
    if (::bind(fd.get(), any.raw(), any.bytes) != 0 || ::listen(fd.get(), 16) != 0) return {};
    return fd;
  }

  /// Who dials gives up by closing, so that each connection ends.
  void reflect() {
    for (;;) {
      const core::UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      static_cast<void>(::send(fd.get(), words_.data(), words_.size(), MSG_NOSIGNAL));
      std::array<char, 4096> bytes{};
      for (ssize_t got; (got = ::recv(fd.get(), bytes.data(), bytes.size(), 0)) > 0;) {
        if (words_.empty()) static_cast<void>(::send(fd.get(), bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL));
      }
    }
  }

  const core::UniqueFd listening_ = blocking_listener();
  const std::string words_;
  std::thread thread_;
};

}  // namespace rueda::test
