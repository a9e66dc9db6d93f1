// A stream socket, plain or under TLS 1.3 with a pre-shared key.
//
// OpenSSL lets a server answer an offered key with a certificate, and by default a client accepts any. So the dialling
// side checks twice: a certificate fails the handshake before the client's Finished message is sent, and a handshake
// that succeeds must have resumed the session that stands for the key. The listening side needs neither: it has no
// certificate to show, so a handshake without the key fails.
#include "runtime/net/secure_stream.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/shortage.h"
#include "runtime/net/key_derivation.h"

namespace rueda::core {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// Threads of the library may use OpenSSL until the process is gone, such as the store's of a rank whose init failed, so
// it must not free itself at exit. Only the first use of a process can say so.
[[maybe_unused]] const int kStaysAtExit = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);

// TLS_AES_128_GCM_SHA256 (RFC 8446, appendix B.4).
constexpr unsigned char kCipherId[2] = {0x13, 0x01};
constexpr size_t kMaxIdentityBytes = 128;

struct Psk {
  std::string identity;
  SecretKey key;
};

int psk_slot() {
  static const int slot = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return slot;
}

const Psk& psk_of(SSL* ssl) { return *static_cast<const Psk*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), psk_slot())); }

/// A session that stands for the key; the caller owns it. Null when OpenSSL has no memory.
SSL_SESSION* session_for(SSL* ssl, const Psk& psk) {
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherId);
  SSL_SESSION* session = SSL_SESSION_new();
  if (cipher != nullptr && session != nullptr &&
      SSL_SESSION_set1_master_key(session, psk.key.data(), psk.key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, cipher) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int offer_psk(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* identity_bytes, SSL_SESSION** session) {
  const Psk& psk = psk_of(ssl);
  *session = session_for(ssl, psk);
  if (*session == nullptr) return 0;
  *identity = reinterpret_cast<const unsigned char*>(psk.identity.data());
  *identity_bytes = psk.identity.size();
  return 1;
}

int find_psk(SSL* ssl, const unsigned char* identity, size_t identity_bytes, SSL_SESSION** session) {
  const Psk& psk = psk_of(ssl);
  *session = nullptr;  // with 1 returned: no such identity, and the handshake fails for lack of a certificate
  if (identity_bytes != psk.identity.size() || std::memcmp(identity, psk.identity.data(), identity_bytes) != 0)
    return 1;
  *session = session_for(ssl, psk);
  return *session != nullptr ? 1 : 0;
}

std::string openssl_error() {
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  return text;
}

/// Names the shortage if there is no memory for the text: a stream that broke always reports something.
Status status_of(const error_code& error) noexcept try {
  if (!error) return {};
  if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
    return Status(Code::kPeerLost, "the peer closed the connection");
  }
  return Status(Code::kSystem, error.message());
} catch (const std::exception& shortage) {
  return failure_of(shortage);
}

Status no_key_but_certificate() {
  return Status(Code::kSystem,
                "the server shows a certificate in place of the job's key: another program answers at this address; "
                "check the address, and that every rank has the same job key");
}

/// No certificate is good enough. For SSL_set_verify.
int refuse_certificate(int, X509_STORE_CTX*) { return 0; }

/// Whether the handshake that ended well proved the key: without a certificate, in the session that stands for it.
bool used_key(SSL* ssl) { return SSL_session_reused(ssl) == 1 && SSL_get0_peer_certificate(ssl) == nullptr; }

/// The session holds the key in ordinary memory. The handshake alone needs it: traffic has keys of its own by then.
void forget_key(SSL* ssl) {
  constexpr std::array<unsigned char, SecretKey::kBytes> kNone{};
  if (SSL_SESSION* session = SSL_get_session(ssl)) SSL_SESSION_set1_master_key(session, kNone.data(), kNone.size());
}

/// Only TLS itself can say that the keys differ: a connection that ends or is reset may be one that was dropped among
/// many.
Status handshake_status(const error_code& error, SSL* ssl) noexcept try {
  if (!error) return used_key(ssl) ? Status() : no_key_but_certificate();
  if (error.category() == asio::error::get_ssl_category()) {
    if (ERR_GET_REASON(static_cast<unsigned long>(error.value())) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
      return no_key_but_certificate();
    }
    return Status(Code::kSystem,
                  "TLS handshake failed (" + error.message() + "): the other side has no or another job key");
  }
  return Status(Code::kPeerLost, "the connection ended in the TLS handshake: " + error.message());
} catch (const std::exception& shortage) {
  return failure_of(shortage);
}

}  // namespace

struct TlsContext::State {
  Psk psk;
  asio::ssl::context context{asio::ssl::context::tlsv13};
};

TlsContext::TlsContext(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::create(const std::string& identity, const SecretKey& key) try {
  if (identity.empty() || identity.size() > kMaxIdentityBytes || identity.find('\0') != std::string::npos) {
    return Status(Code::kInvalidArgument, "a job's name has 1 to 128 bytes without NUL; this one has " +
                                              std::to_string(identity.size()) + " bytes");
  }
  auto state = std::make_unique<State>();
  const auto derived = derive_key(key, "rueda tls: pre-shared key");
  if (!derived.ok()) return derived.status();
  state->psk = {identity, derived.value()};
  SSL_CTX* context = state->context.native_handle();
  SSL_CTX_set_ex_data(context, psk_slot(), &state->psk);
  SSL_CTX_set_psk_use_session_callback(context, offer_psk);
  SSL_CTX_set_psk_find_session_callback(context, find_psk);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  // No ticket may lie unread in the peer's receive buffer when it closes: TCP would answer with a reset.
  if (SSL_CTX_set_num_tickets(context, 0) != 1 || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") != 1) {
    return Status(Code::kSystem, "OpenSSL refused TLS 1.3 with a pre-shared key: " + openssl_error());
  }
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(state)));
} catch (const std::exception& error) {
  return Status(Code::kSystem, std::string("OpenSSL could not make a TLS context: ") + error.what());
}

/// Either kind of stream. Callbacks of the owner are dropped once `open` is false.
struct SecureStream::State : std::enable_shared_from_this<SecureStream::State> {
  State(asio::io_context& context, UniqueFd descriptor, std::shared_ptr<TlsContext> shared, StreamSide which)
      : io(context), tls(std::move(shared)), side(which), socket(context) {
    adopt(std::move(descriptor));
    if (!tls) return;
    secured.emplace(socket, tls->state_->context);
    // On this connection, not on the shared context: a listener that verifies peers would ask diallers for
    // certificates.
    if (side == StreamSide::kDialler) SSL_set_verify(secured->native_handle(), SSL_VERIFY_PEER, refuse_certificate);
  }

  void adopt(UniqueFd descriptor) {
    sockaddr_storage address{};
    socklen_t bytes = sizeof(address);
    ::getsockname(descriptor.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
    error_code error;
    socket.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), descriptor.get(), error);
    // A socket that is not assigned makes every operation fail with EBADF.
    if (!error) close_in_child(descriptor.release());
  }

  /// Calls `with` on the stream in use.
  template <typename With>
  void use(With&& with) {
    if (secured) {
      with(*secured);
    } else {
      with(socket);
    }
  }

  auto completion(Done done) {
    return [self = shared_from_this(), done = std::move(done)](const error_code& error, size_t bytes) {
      if (self->open) done(status_of(error), bytes);
    };
  }

  asio::io_context& io;
  std::shared_ptr<TlsContext> tls;
  StreamSide side;
  tcp::socket socket;
  std::optional<asio::ssl::stream<tcp::socket&>> secured;
  bool open = true;
};

SecureStream::SecureStream(asio::io_context& io, UniqueFd fd, std::shared_ptr<TlsContext> tls, StreamSide side)
    : state_(std::make_shared<State>(io, std::move(fd), std::move(tls), side)) {}

SecureStream::~SecureStream() { close(); }

void SecureStream::handshake(std::function<void(const Status&)> done) {
  if (!state_->secured) {
    asio::post(state_->io, [self = state_, done = std::move(done)] {
      if (self->open) done({});
    });
    return;
  }
  const auto role =
      state_->side == StreamSide::kDialler ? asio::ssl::stream_base::client : asio::ssl::stream_base::server;
  state_->secured->async_handshake(role, [self = state_, done = std::move(done)](const error_code& error) {
    if (!self->open) return;
    forget_key(self->secured->native_handle());
    done(handshake_status(error, self->secured->native_handle()));
  });
}

Result<ChannelBinding> SecureStream::binding() const {
  ChannelBinding binding{};
  if (!state_->secured) return binding;
  constexpr std::string_view kLabel = "EXPORTER-Channel-Binding";
  if (SSL_export_keying_material(state_->secured->native_handle(), reinterpret_cast<unsigned char*>(binding.data()),
                                 binding.size(), kLabel.data(), kLabel.size(), nullptr, 0, 0) != 1) {
    return Status(Code::kSystem, "OpenSSL gives no channel binding: " + openssl_error());
  }
  return binding;
}

void SecureStream::read_some(std::span<std::byte> into, Done done) {
  state_->use([&](auto& stream) {
    stream.async_read_some(asio::buffer(into.data(), into.size()), state_->completion(std::move(done)));
  });
}

void SecureStream::read(std::span<std::byte> into, Done done) {
  state_->use([&](auto& stream) {
    asio::async_read(stream, asio::buffer(into.data(), into.size()), state_->completion(std::move(done)));
  });
}

void SecureStream::write_some(std::span<const std::byte> bytes, Done done) {
  state_->use([&](auto& stream) {
    stream.async_write_some(asio::buffer(bytes.data(), bytes.size()), state_->completion(std::move(done)));
  });
}

void SecureStream::write(std::span<const std::byte> bytes, Done done) {
  state_->use([&](auto& stream) {
    asio::async_write(stream, asio::buffer(bytes.data(), bytes.size()), state_->completion(std::move(done)));
  });
}

void SecureStream::write(std::span<const std::byte> head, std::span<const std::byte> body, Done done) {
  const std::array<asio::const_buffer, 2> both = {asio::buffer(head.data(), head.size()),
                                                  asio::buffer(body.data(), body.size())};
  state_->use([&](auto& stream) { asio::async_write(stream, both, state_->completion(std::move(done))); });
}

int SecureStream::descriptor() const { return state_->socket.native_handle(); }

void SecureStream::close() {
  if (!std::exchange(state_->open, false)) return;
  error_code ignored;
  // Sends FIN behind what was written, and lets the kernel deliver it after the close.
  state_->socket.shutdown(tcp::socket::shutdown_send, ignored);
  keep_in_child(state_->socket.native_handle());
  state_->socket.close(ignored);
}

UniqueFd SecureStream::release() {
  if (!std::exchange(state_->open, false)) return {};
  error_code error;
  const int fd = state_->socket.release(error);
  return error ? UniqueFd() : UniqueFd(fd);
}

}  // namespace rueda::core
