// What an agent says of itself in its first message. hvdrun compares the build, shows the rest with --verbose, and
// finds by the addresses whether two names mean one machine.

#include "launcher/introduction.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "launcher/build.h"
#include "runtime/base/build_id.h"
#include "runtime/base/usable_cores.h"
#include "runtime/net/interfaces.h"

namespace rueda::core::launcher {

Introduction introduce() {
  Introduction introduction;
  introduction.build = build_id();
  introduction.version = version();
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) introduction.host = name.data();
  introduction.cores = usable_cores();
  if (auto addresses = listen_addresses("auto"); addresses.ok()) introduction.addresses = std::move(addresses).value();
  std::erase(introduction.addresses, "127.0.0.1");
  // sshd sets SSH_CONNECTION to the client's address and port, then ours. This host can probably reach hvdrun's host at
  // the client's address, so the store listens there if it can.
  const char* connection = std::getenv("SSH_CONNECTION");
  const std::string text = connection == nullptr ? "" : connection;
  introduction.client = text.substr(0, text.find(' '));
  return introduction;
}

}  // namespace rueda::core::launcher
