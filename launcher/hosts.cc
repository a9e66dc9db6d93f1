// Reads lists of hosts and assigns ranks to their slots. Names are checked strictly because ssh and srun get them as
// words of a command line. Ranks fill one host after the other, so ranks of one host have consecutive numbers.

#include "launcher/hosts.h"

#include <fmt/format.h>
#include <netdb.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <memory>
#include <optional>

#include "runtime/base/printable.h"
#include "runtime/net/interfaces.h"
#include "runtime/net/socket_address.h"

namespace rueda::core::launcher {
namespace {

constexpr int kMaxSlots = 65536;

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<int> parse_slots(std::string_view text) {
  int slots = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), slots);
  if (error != std::errc() || end != text.data() + text.size() || slots < 1 || slots > kMaxSlots) return std::nullopt;
  return slots;
}

// Letters and digits of ASCII alone: std::isalnum would let a locale add others.
bool consists_of(std::string_view text, std::string_view besides) {
  const auto fits = [besides](unsigned char c) {
    return (c < 128 && std::isalnum(c) != 0) || besides.find(static_cast<char>(c)) != std::string_view::npos;
  };
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), fits);
}

// "node1" of "node1.cluster.org".
std::string_view first_label(std::string_view name) { return name.substr(0, name.find('.')); }

// The addresses that the system's resolver knows for a name; empty if it knows none.
std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo wanted{}, *list = nullptr;
  wanted.ai_socktype = SOCK_STREAM;
  std::vector<std::string> addresses;
  if (getaddrinfo(name.c_str(), nullptr, &wanted, &list) != 0) return addresses;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      addresses.emplace_back(text.data());
  }
  return addresses;
}

bool is_our_address(const std::string& address) {
  const auto parsed = SocketAddress::parse(address, 0);
  return parsed.ok() && (parsed.value().is_loopback() || listen_addresses(address).ok());
}

// Returns no answer if there are no addresses to compare.
std::optional<bool> is_one_of_ours(const std::vector<std::string>& addresses) {
  if (addresses.empty()) return std::nullopt;
  return std::any_of(addresses.begin(), addresses.end(), is_our_address);
}

// Accepts an address with a zone, as in fe80::1%eth0, and one without.
bool is_ipv6(std::string_view text) {
  return SocketAddress::parse(std::string(text.substr(0, text.find('%'))), 0).ok();
}

// `name` may begin with a user, as in me@node1.
Status add_host(std::vector<HostSlots>& hosts, std::string_view name, int slots) {
  const size_t at = name.find('@');
  const std::string_view user = at == std::string_view::npos ? std::string_view() : name.substr(0, at);
  const std::string_view host = at == std::string_view::npos ? name : name.substr(at + 1);
  const bool address = host.find(':') != std::string_view::npos;
  if (address && !is_ipv6(host)) {
    return {Code::kInvalidArgument, fmt::format("\"{}\" is neither a host name nor an IPv6 address", name)};
  }
  if (!consists_of(host, address ? "._-:%" : "._-") || (at != std::string_view::npos && !consists_of(user, "._-"))) {
    return {Code::kInvalidArgument,
            fmt::format("\"{}\" is not a host name; use letters, digits and . _ -, with an optional USER@ before them",
                        name)};
  }
  const auto same = [host](const HostSlots& other) { return other.name == host; };
  if (std::any_of(hosts.begin(), hosts.end(), same)) {
    return {Code::kInvalidArgument, fmt::format("host \"{}\" is given twice; give it once with all its slots", host)};
  }
  hosts.push_back({std::string(host), slots, std::string(user)});
  return {};
}

// Takes the brackets off [fd00::1] or user@[fd00::1].
std::string without_brackets(std::string_view name) {
  const size_t open = name.find('[');
  if (name.size() < 3 || open == std::string_view::npos || name.back() != ']') return std::string(name);
  return std::string(name.substr(0, open)) + std::string(name.substr(open + 1, name.size() - open - 2));
}

// `otherwise`: the slots of an entry that names none.
Status add_entry(std::vector<HostSlots>& hosts, std::string_view entry, int otherwise = 1) {
  const size_t colon = entry.rfind(':');
  // More than one colon means an IPv6 address; it can have slots only after brackets, as in [::1]:2.
  const bool bracketed = entry.find('[') != std::string_view::npos;
  const bool bare = colon == std::string_view::npos || (!bracketed && entry.find(':') != colon) || entry.back() == ']';
  const std::string name = without_brackets(bare ? entry : entry.substr(0, colon));
  const auto slots = bare ? std::optional<int>(otherwise) : parse_slots(entry.substr(colon + 1));
  if (name.empty() || name.front() == '-' || !slots) {
    return {Code::kInvalidArgument,
            fmt::format("\"{}\" is not HOST or HOST:SLOTS with 1 to {} slots", entry, kMaxSlots)};
  }
  return add_host(hosts, name, *slots);
}

Status add_line(std::vector<HostSlots>& hosts, std::string_view line, int number) {
  line = trim(line.substr(0, line.find('#')));
  if (line.empty()) return {};
  const size_t blank = line.find_first_of(" \t");
  const std::string_view rest = blank == std::string_view::npos ? std::string_view() : trim(line.substr(blank));
  constexpr std::string_view kSlots = "slots=";
  const auto slots = rest.empty()               ? std::optional<int>(1)
                     : rest.starts_with(kSlots) ? parse_slots(rest.substr(kSlots.size()))
                                                : std::nullopt;
  if (!slots) {
    return {Code::kInvalidArgument,
            fmt::format("line {}: \"{}\" is not `host slots=n` with n from 1 to {}", number, line, kMaxSlots)};
  }
  // Users who know -H write `node1:2` here, which reads as an address; the sentence then shows how slots are written.
  const std::string name = without_brackets(line.substr(0, blank));
  Status added = add_host(hosts, name, *slots);
  if (added.ok()) return added;
  const bool colon = name.find(':') != std::string::npos;
  return {added.code(),
          fmt::format("line {}: {}{}", number, added.sentence(), colon ? "; write slots as in `node1 slots=2`" : "")};
}

}  // namespace

Result<std::vector<HostSlots>> parse_hosts(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trim(text.substr(begin, comma - begin));
    if (entry.empty()) return Status(Code::kInvalidArgument, fmt::format("\"{}\" has an empty host name", text));
    if (Status added = add_entry(hosts, entry); !added.ok()) return added;
    begin = comma + 1;
  }
  return hosts;
}

Result<std::vector<HostSlots>> parse_hostfile(std::string_view text) {
  std::vector<HostSlots> hosts;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (Status added = add_line(hosts, text.substr(begin, end - begin), ++number); !added.ok()) return added;
    begin = end + 1;
  }
  if (hosts.empty()) return Status(Code::kInvalidArgument, "it names no host");
  return hosts;
}

// What does not parse may be anything, such as a page of HTML, so it is quoted in part and printably.
Result<std::vector<HostSlots>> parse_discovered_hosts(std::string_view text, int slots) {
  constexpr size_t kMostQuoted = 100;
  std::vector<HostSlots> hosts;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = trim(text.substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (line.empty()) continue;
    if (line.size() > kMostQuoted) {
      return Status(Code::kInvalidArgument,
                    fmt::format("line {} has {} bytes and begins with \"{}\"; a line is `host` or `host:slots`", number,
                                line.size(), printable(line.substr(0, kMostQuoted))));
    }
    const Status added = add_entry(hosts, line, slots);
    if (!added.ok()) return Status(added.code(), fmt::format("line {}: {}", number, printable(added.sentence())));
  }
  return hosts;
}

Result<std::vector<Placement>> place(int processes, const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const auto& host : hosts) slots += host.slots;
  if (processes > slots) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{} processes do not fit into {} slot{} on {} host{}: give the hosts more slots "
                              "(-H HOST:SLOTS) or lower -np",
                              processes, slots, slots == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s"));
  }
  std::vector<Placement> placements;
  std::vector<int> used;  // ranks on each host so far; a host has local rank n if it has more than n
  for (const auto& host : hosts) {
    const int here = std::min(host.slots, processes - static_cast<int>(placements.size()));
    for (int local = 0; local < here; ++local) {
      // Hosts with fewer slots drop out of the higher local ranks, so the rank across hosts counts only those that
      // stay.
      const int cross = static_cast<int>(std::count_if(used.begin(), used.end(), [&](int n) { return n > local; }));
      placements.push_back({static_cast<int>(placements.size()), processes, host.name, local, here, cross, 1});
    }
    used.push_back(here);
  }
  // The size across hosts is known only once all hosts are filled.
  for (auto& p : placements) {
    p.cross_size = static_cast<int>(std::count_if(used.begin(), used.end(), [&](int n) { return n > p.local_rank; }));
  }
  return placements;
}

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == "::1" || name.starts_with("127.")) return true;
  if (SocketAddress::parse(name, 0).ok()) return listen_addresses(name).ok();
  std::array<char, 256> buffer{};
  if (gethostname(buffer.data(), buffer.size() - 1) != 0) return false;
  const std::string_view own(buffer.data());
  if (name == own || name == first_label(own)) return true;
  if (first_label(name) != first_label(own)) return false;
  // A name with our first label and another domain is another host if the resolver knows it with other addresses.
  return is_one_of_ours(addresses_of(name)).value_or(first_label(name) == own);
}

bool is_this_user(const std::string& name) {
  const passwd* const entry = getpwuid(geteuid());
  return entry != nullptr && name == entry->pw_name;
}

HostShare share_of(const HostSlots& host) {
  const bool ours = host.user.empty() || is_this_user(host.user);
  return {host, ours && is_this_host(host.name), {}};
}

std::vector<HostShare> share_out(const std::vector<HostSlots>& hosts, const std::vector<Placement>& placements) {
  std::vector<HostShare> shares;
  for (const auto& host : hosts) {
    HostShare share = share_of(host);
    for (const auto& placement : placements) {
      if (placement.host == host.name) share.ranks.push_back(placement);
    }
    if (!share.ranks.empty()) shares.push_back(std::move(share));
  }
  return shares;
}

}  // namespace rueda::core::launcher
