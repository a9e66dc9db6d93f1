// Random bytes from the kernel, for keys and names. getrandom needs no descriptor, so it works at the descriptor limit,
// and it waits until the kernel has enough entropy, which /dev/urandom does not.
#include "runtime/base/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <span>
#include <system_error>

namespace rueda::core {
namespace {

/// At most 256 bytes: getrandom(2) fills them in one piece or not at all.
Status fill(std::span<uint8_t> bytes) {
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    if (errno != EINTR) return {Code::kSystem, "getrandom: " + std::generic_category().message(errno)};
  }
  return {};
}

}  // namespace

Result<SecretKey> random_key() {
  SecretKey key;
  RUEDA_RETURN_IF_ERROR(fill(key));
  return key;
}

Result<std::string> random_name() {
  std::array<uint8_t, 16> bits{};
  RUEDA_RETURN_IF_ERROR(fill(bits));
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (const uint8_t byte : bits) {
    name.push_back(kDigits[byte >> 4]);
    name.push_back(kDigits[byte & 15]);
  }
  return name;
}

}  // namespace rueda::core
