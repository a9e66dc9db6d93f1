#include "runtime/net/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <sstream>
#include <system_error>

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
    return Status(Code::kSystem, "getifaddrs: " + std::generic_category().message(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Interface> result;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    std::string address = dialable(entry->ifa_addr);
    if (!address.empty()) result.push_back({entry->ifa_name, std::move(address), (entry->ifa_flags & IFF_LOOPBACK) != 0});
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
    for (std::string wanted; std::getline(list, wanted, ',');) {
      const size_t before = result.size();
      for (const Interface& one : found.value()) {
        if (one.name == wanted || one.address == wanted) add(result, one.address);
      }
      if (result.size() != before || wanted == "127.0.0.1" || wanted == "lo") continue;
      return Status(Code::kInvalidArgument, "RUEDA_NETWORK_INTERFACES names \"" + wanted + "\", this machine has " +
                                                names_of(found.value()));
    }
  }
  std::erase(result, "127.0.0.1");
  result.push_back("127.0.0.1");
  return result;
}

}  // namespace rueda::core
