// The hello without I/O: each side checks what came and gives what goes, so that tests can forge every message.
//
// The text under a MAC, where "job" has its length in front so that no two jobs and messages give the same text:
//
//   role 1 | job's length 8 | job | binding 32 | first 64 | listener's nonce 32
#include "runtime/net/hello.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/net/key_derivation.h"

namespace rueda::core {
namespace {

constexpr uint32_t kVersion = 2;
constexpr uint32_t kFirstMagic = 0x31'48'44'52;  // "RDH1" and so on, little-endian
constexpr uint32_t kSecondMagic = 0x32'48'44'52;
constexpr uint32_t kThirdMagic = 0x33'48'44'52;
constexpr size_t kHeadBytes = 8;  // magic and version
constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;
constexpr size_t kRouteBytes = 24;

static_assert(kHelloFirstBytes == kHeadBytes + kRouteBytes + kNonceBytes);
static_assert(kHelloSecondBytes == kHeadBytes + kNonceBytes + kMacBytes);
static_assert(kHelloThirdBytes == kHeadBytes + kMacBytes);

using Bytes = std::span<const std::byte>;

/// What a MAC is for: the proof of one side, or the key for TLS that both sides make.
enum class Role : uint8_t { kDialler = 'd', kListener = 'l', kStream = 's' };

std::string_view label_of(Role role) {
  switch (role) {
    case Role::kDialler: return "rueda hello: dialler to listener";
    case Role::kListener: return "rueda hello: listener to dialler";
    case Role::kStream: break;
  }
  return "rueda hello: stream";
}

template <typename T>
void put(std::span<std::byte> into, size_t offset, T value) {
  std::memcpy(into.data() + offset, &value, sizeof(value));
}

template <typename T>
T take(Bytes from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof(value));
  return value;
}

void put_head(std::span<std::byte> message, uint32_t magic) {
  put(message, 0, magic);
  put(message, 4, kVersion);
}

Status check_head(Bytes message, uint32_t magic, int rank) {
  if (take<uint32_t>(message, 0) != magic) return Status(Code::kSystem, "hello: not a message of this protocol", rank);
  const auto version = take<uint32_t>(message, 4);
  if (version == kVersion) return {};
  return Status(Code::kSystem,
                "hello: the peer speaks version " + std::to_string(version) + ", we speak " + std::to_string(kVersion),
                rank);
}

Status fill_nonce(std::span<std::byte> nonce) {
  // Up to 256 bytes come whole or not at all (getrandom(2)).
  while (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    if (errno != EINTR) return Status(Code::kSystem, std::string("hello: getrandom: ") + std::strerror(errno));
  }
  return {};
}

std::vector<std::byte> text_of(const HelloScope& scope, Role role, const HelloFirst& first, Bytes listener_nonce) {
  const uint64_t job_bytes = scope.job.size();
  const Bytes parts[] = {std::as_bytes(std::span(scope.job)), scope.binding, first, listener_nonce};
  size_t size = sizeof(role) + sizeof(job_bytes);
  for (const Bytes part : parts) size += part.size();
  std::vector<std::byte> text(size);
  put(text, 0, role);
  put(text, sizeof(role), job_bytes);
  auto end = text.begin() + sizeof(role) + sizeof(job_bytes);
  for (const Bytes part : parts) end = std::copy(part.begin(), part.end(), end);
  return text;
}

/// What `role` alone can make with the job key in this very exchange.
Result<Mac> proof(const HelloScope& scope, Role role, const HelloFirst& first, Bytes listener_nonce) {
  const auto key = derive_key(scope.key, label_of(role));
  if (!key.ok()) return key.status();
  return hmac_sha256(key.value(), text_of(scope, role, first, listener_nonce));
}

Status check_proof(const HelloScope& scope, Role role, const HelloFirst& first, Bytes nonce, Bytes mac, int rank) {
  const auto expected = proof(scope, role, first, nonce);
  if (!expected.ok()) return expected.status();
  if (CRYPTO_memcmp(expected.value().data(), mac.data(), kMacBytes) == 0) return {};
  return Status(Code::kSystem,
                "hello: rank " + std::to_string(rank) + " does not prove the key of job \"" + scope.job + "\"", rank);
}

Bytes nonce_of(const HelloSecond& second) { return Bytes(second).subspan(kHeadBytes, kNonceBytes); }

Result<SecretKey> stream_key_of(const HelloScope& scope, const HelloFirst& first, const HelloSecond& second) {
  const auto key = derive_key(scope.key, label_of(Role::kStream));
  if (!key.ok()) return key.status();
  return derive_key(key.value(), text_of(scope, Role::kStream, first, nonce_of(second)));
}

HelloFirst encode(const HelloScope& scope, const HelloRoute& route) {
  HelloFirst first{};
  put_head(first, kFirstMagic);
  put(first, 8, scope.epoch);
  put(first, 16, static_cast<int32_t>(route.dialler));
  put(first, 20, static_cast<int32_t>(route.listener));
  put(first, 24, static_cast<uint32_t>(route.purpose));
  put(first, 28, route.number);
  return first;
}

Status check_claim(const HelloScope& scope, uint64_t epoch, const HelloRoute& route) {
  const std::string who = "hello: rank " + std::to_string(route.dialler);
  if (epoch != scope.epoch) {
    return Status(Code::kSystem,
                  who + " is in epoch " + std::to_string(epoch) + ", this is epoch " + std::to_string(scope.epoch));
  }
  if (route.listener != scope.rank) {
    return Status(Code::kSystem, who + " wants rank " + std::to_string(route.listener) + ", this is rank " +
                                     std::to_string(scope.rank));
  }
  if (route.dialler < 0 || route.dialler >= scope.size || route.dialler == scope.rank) {
    return Status(Code::kSystem, who + ", which dials rank " + std::to_string(scope.rank) +
                                     ", is not another rank from 0 to " + std::to_string(scope.size - 1));
  }
  return {};
}

}  // namespace

HelloDialler::HelloDialler(HelloScope scope, int listener, HelloPurpose purpose, uint32_t number)
    : scope_(std::move(scope)), route_{scope_.rank, listener, purpose, number} {}

Result<HelloFirst> HelloDialler::first() {
  first_ = encode(scope_, route_);
  RUEDA_RETURN_IF_ERROR(fill_nonce(std::span(first_).last(kNonceBytes)));
  return first_;
}

Result<HelloThird> HelloDialler::on_second(const HelloSecond& second) {
  const int rank = route_.listener;
  RUEDA_RETURN_IF_ERROR(check_head(second, kSecondMagic, rank));
  second_ = second;
  const Bytes nonce = nonce_of(second_);
  RUEDA_RETURN_IF_ERROR(check_proof(scope_, Role::kListener, first_, nonce, Bytes(second).last(kMacBytes), rank));
  const auto mac = proof(scope_, Role::kDialler, first_, nonce);
  if (!mac.ok()) return mac.status();
  HelloThird third{};
  put_head(third, kThirdMagic);
  std::copy(mac.value().begin(), mac.value().end(), third.begin() + kHeadBytes);
  return third;
}

Result<SecretKey> HelloDialler::stream_key() const { return stream_key_of(scope_, first_, second_); }

HelloListener::HelloListener(HelloScope scope) : scope_(std::move(scope)) {}

Result<HelloSecond> HelloListener::on_first(const HelloFirst& first) {
  RUEDA_RETURN_IF_ERROR(check_head(first, kFirstMagic, -1));
  first_ = first;
  route_.dialler = take<int32_t>(first, 16);
  route_.listener = take<int32_t>(first, 20);
  route_.purpose = static_cast<HelloPurpose>(take<uint32_t>(first, 24));
  route_.number = take<uint32_t>(first, 28);
  RUEDA_RETURN_IF_ERROR(check_claim(scope_, take<uint64_t>(first, 8), route_));
  put_head(second_, kSecondMagic);
  const auto nonce = std::span(second_).subspan(kHeadBytes, kNonceBytes);
  RUEDA_RETURN_IF_ERROR(fill_nonce(nonce));
  const auto mac = proof(scope_, Role::kListener, first_, nonce);
  if (!mac.ok()) return mac.status();
  std::copy(mac.value().begin(), mac.value().end(), second_.begin() + kHeadBytes + kNonceBytes);
  return second_;
}

Status HelloListener::on_third(const HelloThird& third) {
  RUEDA_RETURN_IF_ERROR(check_head(third, kThirdMagic, route_.dialler));
  return check_proof(scope_, Role::kDialler, first_, nonce_of(second_), Bytes(third).last(kMacBytes), route_.dialler);
}

Result<SecretKey> HelloListener::stream_key() const { return stream_key_of(scope_, first_, second_); }

}  // namespace rueda::core
