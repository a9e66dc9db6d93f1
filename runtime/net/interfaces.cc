// Chooses the addresses a rank listens on, in the order in which its peers try them:
//
//   interfaces that are up ─▶ dialable addresses, IPv4 first ─▶ those that the setting names ─▶ ..., 127.0.0.1
//
// Loopback always comes last: it serves peers of the same host, and a peer elsewhere must not try it first.
#include "runtime/net/interfaces.h"

#include <arpa/inet.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>

#include "runtime/base/shortage.h"
#include "runtime/net/socket_address.h"

namespace rueda::core {

namespace {

struct Interface {
  std::string name;
  std::string address;
  bool loopback = false;
};

/// The numeric text of an address peers can dial; empty for other families and for link-local addresses, which need a
/// scope that differs from host to host.
std::string dialable(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    if (!IN6_IS_ADDR_LINKLOCAL(&v6)) ::inet_ntop(AF_INET6, &v6, text, sizeof(text));
  }
  return text;
}

Result<std::vector<Interface>> interfaces_up() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) {
    return Status(Code::kSystem, "getifaddrs: " + reason_of(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::string address = dialable(entry->ifa_addr);
    if (!address.empty())
      result.push_back({entry->ifa_name, std::move(address), (entry->ifa_flags & IFF_LOOPBACK) != 0});
  }
  // IPv4 first: it is what most clusters route.
  std::stable_partition(result.begin(), result.end(),
                        [](const Interface& one) { return one.address.find(':') == std::string::npos; });
  return result;
}

std::string names_of(const std::vector<Interface>& interfaces) {
  std::string names;
  for (const Interface& one : interfaces) names += (names.empty() ? "" : ", ") + one.name + " (" + one.address + ")";
  return names.empty() ? "no interface with an address" : names;
}

/// The bytes of a numeric address, in network order.
std::span<const unsigned char> bytes_of(const SocketAddress& address) {
  if (address.family() == AF_INET6) {
    return {reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr.s6_addr, 16};
  }
  return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr), 4};
}

/// An address and how many of its first bits count, such as 10.1.0.0/16.
struct Network {
  SocketAddress base;
  unsigned prefix = 0;
};

/// Returns empty if the text is not in CIDR notation (RFC 4632).
std::optional<Network> network_of(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  unsigned prefix = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + slash + 1, end, prefix);
  const auto base = SocketAddress::parse(text.substr(0, slash), 0);
  if (parsed.ec != std::errc() || parsed.ptr != end || !base.ok()) return std::nullopt;
  if (prefix > 8 * bytes_of(base.value()).size()) return std::nullopt;
  return Network{base.value(), prefix};
}

bool lies_in(const std::string& address, const Network& network) {
  const auto own = SocketAddress::parse(address, 0);
  if (!own.ok()) return false;
  const auto a = bytes_of(network.base), b = bytes_of(own.value());
  if (a.size() != b.size()) return false;
  // Byte by byte: the mask has ones for the bits of the prefix that lie in this byte.
  for (size_t i = 0; i < a.size(); ++i) {
    const auto before = static_cast<unsigned>(8 * i);
    const unsigned bits = network.prefix < before ? 0 : std::min<unsigned>(8, network.prefix - before);
    const unsigned mask = 0xff00u >> bits & 0xffu;
    if (((a[i] ^ b[i]) & mask) != 0) return false;
  }
  return true;
}

bool matches(const Interface& one, const std::string& wanted, const std::optional<Network>& network) {
  if (network) return lies_in(one.address, *network);
  return one.address == wanted || ::fnmatch(wanted.c_str(), one.name.c_str(), 0) == 0;
}

void add(std::vector<std::string>& addresses, const std::string& address) {
  if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) addresses.push_back(address);
}

}  // namespace

Result<std::vector<std::string>> listen_addresses(const std::string& choice) {
  const auto found = interfaces_up();
  if (!found.ok()) return found.status();
  std::vector<std::string> result;
  if (choice == "auto") {
    for (const Interface& one : found.value()) {
      if (!one.loopback) add(result, one.address);
    }
  } else {
    std::istringstream list(choice);
    bool known = false;
    for (std::string wanted; std::getline(list, wanted, ',');) {
      const std::optional<Network> network = network_of(wanted);
      if (!network && wanted.find('/') != std::string::npos) {
        return Status(Code::kInvalidArgument, "RUEDA_NETWORK_INTERFACES: \"" + wanted + "\" in \"" + choice +
                                                  "\" is not a network; write one as 10.1.0.0/16");
      }
      for (const Interface& one : found.value()) {
        if (!matches(one, wanted, network)) continue;
        known = true;
        if (!one.loopback) add(result, one.address);
      }
    }
    if (!known) {
      return Status(Code::kInvalidArgument,
                    "RUEDA_NETWORK_INTERFACES names \"" + choice + "\"; this machine has " + names_of(found.value()));
    }
  }
  result.push_back("127.0.0.1");
  return result;
}

std::string interface_of(const SocketAddress& address) {
  const auto found = interfaces_up();
  if (!found.ok()) return {};
  for (const Interface& one : found.value()) {
    const auto own = SocketAddress::parse(one.address, address.port());
    if (own.ok() && own.value().text() == address.text()) return one.name;
  }
  return {};
}

}  // namespace rueda::core
