#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/secret_key.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace boost::asio {
class io_context;
}

namespace rueda::core {

/// TLS 1.3 with a pre-shared key (RFC 8446, section 2.2, psk_dhe_ke): no certificates, one cipher suite
/// (TLS_AES_128_GCM_SHA256), no session tickets. The identity is the job's name and travels in the clear. A peer with
/// another name or key fails the handshake; so does a listener that ignores the key and shows a certificate. A value to
/// share; immutable, any thread.
///
/// OpenSSL sees a key that is derived from `key`, never `key` itself, and forgets that one with the handshake. The
/// secrets of open connections stay in OpenSSL's memory.
class TlsContext {
 public:
  /// `identity`: 1 to 128 bytes without NUL. Returns kInvalidArgument if it is not, and kSystem with OpenSSL's own
  /// sentence if there is no such context.
  static Result<std::shared_ptr<TlsContext>> create(const std::string& identity, const SecretKey& key);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

 private:
  friend class SecureStream;
  struct State;
  explicit TlsContext(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A value that only the two ends of one TLS connection share: "tls-exporter" of RFC 9266. All zero on a plain stream.
using ChannelBinding = std::array<std::byte, 32>;

/// Which end of the connection this is.
enum class StreamSide { kDialler, kListener };

/// A connected stream socket, over TLS or plain. Owns the descriptor. Belongs to the one thread that runs its
/// io_context (which must outlive it); callbacks run there, inside `io_context::run` and friends, never inside the call
/// itself. At most one read and one write may be pending. After `close` or the destructor no callback is called any
/// more.
class SecureStream {
 public:
  /// A status that is not ok says how the stream broke: kPeerLost at the end of file, else kSystem with the cause.
  using Done = std::function<void(const Status&, size_t bytes)>;

  /// `fd`: a connected TCP socket. `tls`: null for a plain stream.
  SecureStream(boost::asio::io_context& io, UniqueFd fd, std::shared_ptr<TlsContext> tls, StreamSide side);
  ~SecureStream();
  SecureStream(const SecureStream&) = delete;
  SecureStream& operator=(const SecureStream&) = delete;

  /// Comes first, on both sides; succeeds at once on a plain stream. Afterwards both sides have proven the key. Reports
  /// kSystem if the peer has no key or another one, kPeerLost if the connection ended or was reset before that was
  /// known.
  void handshake(std::function<void(const Status&)> done);
  /// The binding of this connection, after its handshake. Returns kSystem if OpenSSL has none.
  Result<ChannelBinding> binding() const;
  /// At least one byte. `into` is borrowed until the callback.
  void read_some(std::span<std::byte> into, Done done);
  /// All of `into`.
  void read(std::span<std::byte> into, Done done);
  /// Some of `bytes`, at least one. Borrowed until the callback.
  void write_some(std::span<const std::byte> bytes, Done done);
  /// All of `bytes`, which may not be empty. Borrowed until the callback.
  void write(std::span<const std::byte> bytes, Done done);
  /// All of `head` and, behind it, of `body`.
  void write(std::span<const std::byte> head, std::span<const std::byte> body, Done done);
  /// The socket, which stays the stream's.
  int descriptor() const;
  /// Ends the stream; what was written is still delivered.
  void close();
  /// Gives the socket of a plain stream away, as after `close`. Nothing may be pending. Returns an invalid descriptor
  /// if the stream was closed.
  UniqueFd release();

 private:
  struct State;
  std::shared_ptr<State> state_;  // pending operations of Asio hold it as well
};

}  // namespace rueda::core
