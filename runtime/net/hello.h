#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/secret_key.h"
#include "runtime/base/status.h"
#include "runtime/net/secure_stream.h"

namespace rueda::core {

/// The mutual proof of the job key with which every connection between ranks begins. Nothing else that an unproven peer
/// sends is parsed.
///
///   dialler                                                                   listener
///     first:  magic, version, epoch, both ranks, purpose, number, nonce  ──▶
///     ◀──  second: magic, version, nonce, MAC
///     third:  magic, version, MAC  ──▶
///
/// Both MACs are HMAC-SHA256 (RFC 2104) over the sender's role, the job, the binding of the TLS connection (zero on a
/// plain socket), everything in `first` and both nonces, with one key per direction derived from the job key. So a
/// message cannot be replayed (nonces), sent back to its maker (role, keys), used for another epoch, rank or channel,
/// or carried from one TLS connection to another (binding). Integers are little-endian.
///
/// A control connection says hello under TLS. A data connection says it on the plain socket. If its data are encrypted,
/// TLS begins behind the hello, with a key that both ends derive from the job key and this very exchange
/// (`stream_key`): a man in the middle cannot join the hello of one connection to the TLS of another.
inline constexpr size_t kHelloFirstBytes = 64;
inline constexpr size_t kHelloSecondBytes = 72;
inline constexpr size_t kHelloThirdBytes = 40;
using HelloFirst = std::array<std::byte, kHelloFirstBytes>;
using HelloSecond = std::array<std::byte, kHelloSecondBytes>;
using HelloThird = std::array<std::byte, kHelloThirdBytes>;

/// What one rank knows before it connects.
struct HelloScope {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;  ///< own
  int size = 1;
  SecretKey key{};           ///< all zero with RUEDA_INSECURE=1: the same exchange, proving nothing
  ChannelBinding binding{};  ///< of the connection that carries the exchange
};

/// What a connection is for. The values travel.
enum class HelloPurpose : uint32_t { kLocal = 1, kControl = 2, kData = 3 };

/// Which connection this is. Proven equal on both sides once the exchange has ended well.
struct HelloRoute {
  int dialler = 0;
  int listener = 0;
  HelloPurpose purpose = HelloPurpose::kData;
  uint32_t number = 0;  ///< the purpose's own: a lane, a channel
};

/// The dialling side of one connection: `first`, then `on_second`, each once. No I/O, no clock; one thread at a time.
/// Failures are kSystem, say what was refused, and carry the listener's rank; close the connection then.
class HelloDialler {
 public:
  HelloDialler(HelloScope scope, int listener, HelloPurpose purpose, uint32_t number);
  /// The exchange is carried by the TLS connection with this binding. Call it before `first`, or not at all on a plain
  /// socket.
  void bind(const ChannelBinding& binding) { scope_.binding = binding; }
  /// The message to send first. Returns kSystem if the kernel has no random numbers.
  Result<HelloFirst> first();
  /// Proves the listener, and gives the message to send last; after it the stream is the caller's.
  Result<HelloThird> on_second(const HelloSecond& second);
  /// The key for TLS behind this exchange, after `on_second`: the same as the listener's, and no other exchange's.
  Result<SecretKey> stream_key() const;
  const HelloRoute& route() const { return route_; }

 private:
  HelloScope scope_;
  HelloRoute route_;
  HelloFirst first_{};
  HelloSecond second_{};
};

/// The listening side of one connection: `on_first`, then `on_third`, each once. As `HelloDialler`.
class HelloListener {
 public:
  explicit HelloListener(HelloScope scope);
  /// As `HelloDialler::bind`, before `on_first`.
  void bind(const ChannelBinding& binding) { scope_.binding = binding; }
  /// Checks what the dialler claims against the scope, and gives the message to send back.
  Result<HelloSecond> on_first(const HelloFirst& first);
  /// Proves the dialler; afterwards the stream is the caller's.
  Status on_third(const HelloThird& third);
  /// As `HelloDialler::stream_key`, after `on_third`.
  Result<SecretKey> stream_key() const;
  /// What the dialler claimed; proven only if `on_third` was ok.
  const HelloRoute& route() const { return route_; }

 private:
  HelloScope scope_;
  HelloRoute route_;
  HelloFirst first_{};
  HelloSecond second_{};
};

}  // namespace rueda::core
