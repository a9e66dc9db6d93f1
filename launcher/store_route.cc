#include "launcher/store_route.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/deadline.h"
#include "runtime/net/socket_address.h"
#include "runtime/store/store_client.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// One candidate on the way.
struct Try {
  std::string text;
  UniqueFd fd;
  int error = EINPROGRESS;  // 0: connected
  std::string reason;
};

Try begin(const std::string& candidate) {
  Try one{candidate, {}, EINVAL, {}};
  const auto where = parse_store_address(candidate);
  const auto address =
      where.ok() ? SocketAddress::parse(where.value().host, where.value().port) : Result<SocketAddress>(where.status());
  auto socket = address.ok() ? open_tcp_socket(address.value()) : Result<UniqueFd>(address.status());
  if (!socket.ok()) {
    one.reason = socket.status().sentence();
    return one;
  }
  one.fd = std::move(socket).value();
  one.error = ::connect(one.fd.get(), address.value().raw(), address.value().bytes) == 0 ? 0 : errno;
  return one;
}

void look(Try& one) {
  socklen_t bytes = sizeof(one.error);
  if (::getsockopt(one.fd.get(), SOL_SOCKET, SO_ERROR, &one.error, &bytes) != 0) one.error = errno;
}

std::string local_address(int fd) {
  SocketAddress own;
  own.bytes = sizeof(own.storage);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own.storage), &own.bytes) != 0) return "?";
  const std::string text = own.text();
  return text.substr(0, text.rfind(':'));
}

Status none_answered(const std::vector<Try>& tries, const char* what) {
  std::string all;
  for (const Try& one : tries) {
    const std::string reason = one.error == EINPROGRESS ? "no answer"
                               : one.reason.empty()     ? std::string(std::strerror(one.error))
                                                        : one.reason;
    all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", one.text, reason);
  }
  return {Code::kSystem, fmt::format("cannot reach {} ({})", what, all.empty() ? "it has no address" : all)};
}

}  // namespace

Result<StoreRoutes> plan_store_routes(const std::vector<std::string>& own, const std::vector<HostView>& hosts) {
  StoreRoutes routes;
  const auto listen_on = [&routes](const std::string& address) {
    if (!contains(routes.listen, address)) routes.listen.push_back(address);
  };
  for (const HostView& host : hosts) {
    std::vector<std::string> way{kLoopback};
    if (!host.here) way = contains(own, host.our_address) ? std::vector<std::string>{host.our_address} : own;
    if (way.empty())
      return Status(Code::kInvalidArgument, "this machine has no address that other hosts could reach it by");
    for (const std::string& address : way) listen_on(address);
    routes.of_host.push_back(std::move(way));
  }
  return routes;
}

std::string with_port(const std::string& numeric, uint16_t port) {
  const bool v6 = numeric.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", numeric, port) : fmt::format("{}:{}", numeric, port);
}

Result<WorkingPath> find_path(const std::vector<std::string>& candidates, std::chrono::milliseconds limit,
                              const char* what) {
  const Deadline deadline = Deadline::after(limit);
  std::vector<Try> tries;
  for (const std::string& candidate : candidates) tries.push_back(begin(candidate));
  for (;;) {
    for (const Try& one : tries) {
      if (one.error == 0) return WorkingPath{one.text, local_address(one.fd.get())};
    }
    std::vector<pollfd> waiting;
    std::vector<Try*> whose;
    for (Try& one : tries) {
      if (one.error != EINPROGRESS) continue;
      waiting.push_back({one.fd.get(), POLLOUT, 0});
      whose.push_back(&one);
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left(limit));
    if (waiting.empty() || deadline.passed()) return none_answered(tries, what);
    ::poll(waiting.data(), waiting.size(), static_cast<int>(left.count()) + 1);
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) look(*whose[i]);
    }
  }
}

UniqueFd listen_anywhere() {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) continue;
    const int both = 0;
    if (family == AF_INET6)
      static_cast<void>(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both));
    // Without an address it is bound to all of them, at a port of the system's choice.
    if (::listen(socket.get(), SOMAXCONN) == 0) return socket;
  }
  return {};
}

uint16_t listening_port(const UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof address;
  if (!socket.valid() || ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return 0;
  const bool v6 = address.ss_family == AF_INET6;
  return ntohs(v6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                  : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace rueda::core::launcher
