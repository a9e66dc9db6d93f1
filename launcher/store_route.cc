// Finds a network path to the store. A machine may have many addresses and no way to tell which of them another host
// reaches, so the agent tries all at once: waiting for each in turn would cost a full timeout for every dead one. The
// first in hvdrun's order wins among those that have answered, not the fastest by microseconds, so repeated runs choose
// alike.

#include "launcher/store_route.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "runtime/base/deadline.h"
#include "runtime/net/connect.h"
#include "runtime/net/socket_address.h"
#include "runtime/store/store_client.h"

namespace rueda::core::launcher {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

bool is_in(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// The address and the port of a candidate; both are numeric.
Result<SocketAddress> numeric_address(const std::string& candidate) {
  const auto where = parse_store_address(candidate);
  if (!where.ok()) return where.status();
  return SocketAddress::parse(where.value().host, where.value().port);
}

std::string without_port(const std::string& address) { return address.substr(0, address.rfind(':')); }

Status none_answered(const std::vector<std::string>& candidates, const std::vector<std::string>& reasons,
                     const char* what) {
  std::string all;
  for (size_t i = 0; i < candidates.size(); ++i) {
    all += fmt::format("{}{}: {}", i == 0 ? "" : "; ", candidates[i], reasons[i]);
  }
  return {Code::kSystem, fmt::format("cannot reach {} ({})", what, all.empty() ? "it has no address" : all)};
}

}  // namespace

Result<StoreRoutes> plan_store_routes(const std::vector<std::string>& own, const std::vector<HostView>& hosts) {
  StoreRoutes routes;
  const auto listen_on = [&routes](const std::string& address) {
    if (!is_in(routes.listen, address)) routes.listen.push_back(address);
  };
  for (const HostView& host : hosts) {
    std::vector<std::string> way{kLoopback};
    if (!host.here) way = is_in(own, host.our_address) ? std::vector<std::string>{host.our_address} : own;
    if (way.empty())
      return Status(Code::kInvalidArgument, "this machine has no address at which other hosts could reach it");
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
  std::vector<std::string> reasons(candidates.size(), "no answer");
  std::vector<SocketAddress> addresses;
  std::vector<size_t> candidate_of;  // by address: a candidate that is no address is not tried
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto address = numeric_address(candidates[i]);
    if (!address.ok()) {
      reasons[i] = address.status().sentence();
      continue;
    }
    addresses.push_back(address.value());
    candidate_of.push_back(i);
  }
  ConnectFailures failures;
  const auto connected = connect_first(addresses, Deadline::after(limit), failures);
  if (connected.ok()) {
    const Connected& one = connected.value();
    return WorkingPath{candidates[candidate_of[one.index]], without_port(own_address(one.fd.get()))};
  }
  for (size_t i = 0; i < failures.reasons.size(); ++i) {
    if (!failures.reasons[i].empty()) reasons[candidate_of[i]] = failures.reasons[i];
  }
  return none_answered(candidates, reasons, what);
}

UniqueFd listen_anywhere() {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) continue;
    const int both = 0;  // an IPv6 socket takes IPv4 too, unless the machine's default forbids it
    if (family == AF_INET6)
      static_cast<void>(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both));
    // listen() without bind() takes every address and a free port of the system's choice.
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
