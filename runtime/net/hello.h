#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace rueda::core {

/// The mutual proof of the job key with which every plain socket begins. Nothing else of an unproven peer is parsed.
///
///   dialler                                                                   listener
///     first:  magic, version, epoch, both ranks, purpose, number, nonce  ──▶
///     ◀──  second: magic, version, nonce, MAC
///     third:  magic, version, MAC  ──▶
///
/// Both MACs are HMAC-SHA256 (RFC 2104) over the sender's role, the job, everything in `first` and both nonces, with
/// one key per direction derived from the job key. So a message cannot be replayed (nonces), sent back to who made it
/// (role, keys), or used for another epoch, rank or channel. Integers are little-endian. What follows on the socket is
/// plain.
inline constexpr size_t kHelloFirstBytes = 64;
inline constexpr size_t kHelloSecondBytes = 72;
inline constexpr size_t kHelloThirdBytes = 40;
using HelloFirst = std::array<std::byte, kHelloFirstBytes>;
using HelloSecond = std::array<std::byte, kHelloSecondBytes>;
using HelloThird = std::array<std::byte, kHelloThirdBytes>;

/// What one rank knows before it talks to anybody.
struct HelloScope {
  std::string job;
  uint64_t epoch = 0;
  int rank = 0;  ///< own
  int size = 1;
  std::array<uint8_t, 32> key{};  ///< all zero with RUEDA_INSECURE=1: the same exchange, proving nothing
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
  /// The message to send first. kSystem: the kernel has no random numbers.
  Result<HelloFirst> first();
  /// Proves the listener, and gives the message to send last; after it the stream is the caller's.
  Result<HelloThird> on_second(const HelloSecond& second);
  const HelloRoute& route() const { return route_; }

 private:
  HelloScope scope_;
  HelloRoute route_;
  HelloFirst first_{};
};

/// The listening side of one connection: `on_first`, then `on_third`, each once. As `HelloDialler`.
class HelloListener {
 public:
  explicit HelloListener(HelloScope scope);
  /// Checks what the dialler claims against the scope, and gives the message to send back.
  Result<HelloSecond> on_first(const HelloFirst& first);
  /// Proves the dialler; afterwards the stream is the caller's.
  Status on_third(const HelloThird& third);
  /// What the dialler claimed; proven only when `on_third` was ok.
  const HelloRoute& route() const { return route_; }

 private:
  HelloScope scope_;
  HelloRoute route_;
  HelloFirst first_{};
  HelloSecond second_{};
};

}  // namespace rueda::core
