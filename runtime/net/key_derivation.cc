// One HMAC writes straight to where its result belongs, so that a derived key is never in ordinary memory.
#include "runtime/net/key_derivation.h"

#include <openssl/evp.h>

namespace rueda::core {
namespace {

using Bytes = std::span<const std::byte>;

Status hmac_into(const SecretKey& key, Bytes text, unsigned char* into) {
  size_t written = 0;
  const auto* const made =
      EVP_Q_mac(nullptr, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(),
                reinterpret_cast<const unsigned char*>(text.data()), text.size(), into, SecretKey::kBytes, &written);
  if (made != nullptr && written == SecretKey::kBytes) return {};
  return Status(Code::kSystem, "OpenSSL refuses HMAC-SHA256");
}

}  // namespace

Result<Mac> hmac_sha256(const SecretKey& key, Bytes text) {
  Mac mac;
  RUEDA_RETURN_IF_ERROR(hmac_into(key, text, reinterpret_cast<unsigned char*>(mac.data())));
  return mac;
}

Result<SecretKey> derive_key(const SecretKey& parent, Bytes context) {
  SecretKey key;
  RUEDA_RETURN_IF_ERROR(hmac_into(parent, context, key.data()));
  return key;
}

Result<SecretKey> derive_key(const SecretKey& parent, std::string_view context) {
  return derive_key(parent, std::as_bytes(std::span(context)));
}

}  // namespace rueda::core
