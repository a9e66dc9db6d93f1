#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/base/secret_key.h"
#include "runtime/base/status.h"

namespace rueda::core {

using Mac = std::array<std::byte, 32>;

/// HMAC-SHA256 (RFC 2104) of `text`. Returns kSystem if OpenSSL refuses it. Any thread.
Result<Mac> hmac_sha256(const SecretKey& key, std::span<const std::byte> text);
/// The key that `parent` gives for `context`, an HMAC-SHA256: it tells nothing of `parent`, nor of the keys for other
/// contexts. Returns kSystem if OpenSSL refuses it. Any thread.
Result<SecretKey> derive_key(const SecretKey& parent, std::span<const std::byte> context);
Result<SecretKey> derive_key(const SecretKey& parent, std::string_view context);

}  // namespace rueda::core
