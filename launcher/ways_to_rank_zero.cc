// Three steps, each an answer away from the next:
//
//   hvdrun -> agent of rank 0's host   kListen     it answers kListening with a port and its addresses
//   hvdrun -> every other agent        kReach      it tries those addresses and answers kReached with the path
//   the last answer                    done        the job orders its ranks
//
// An agent that finds no path answers too, with the reason. The job goes on, as this is only a report for the user.

#include "launcher/ways_to_rank_zero.h"

#include <fmt/format.h>

#include <sstream>

#include "launcher/store_route.h"

namespace rueda::core::launcher {
namespace {

constexpr size_t kHostThatListens = 0;

}  // namespace

void WaysToRankZero::ask(const std::string& interfaces) {
  hosts_.send(kHostThatListens, {MessageType::kListen, -1, 0, interfaces});
}

void WaysToRankZero::listening(const Message& message) {
  std::string reachable;
  std::istringstream addresses(message.bytes);
  for (std::string address; message.number > 0 && addresses >> address;) {
    reachable += with_port(address, static_cast<uint16_t>(message.number)) + " ";
  }
  for (size_t host = 0; host < hosts_.count(); ++host) {
    if (host != kHostThatListens) hosts_.send(host, {MessageType::kReach, -1, 0, reachable});
  }
}

void WaysToRankZero::reached(size_t host, const Message& message) {
  say_(fmt::format("host {} {}", hosts_.host(host).name(), message.bytes));
  if (++answers_ == hosts_.count() - 1) done_();
}

}  // namespace rueda::core::launcher
