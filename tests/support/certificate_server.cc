// An impostor with a certificate. It begins TLS where a real server would, so that the dialler alone decides what it is
// told.
#include "tests/support/certificate_server.h"

#include <openssl/ec.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/net/hello.h"
#include "runtime/net/socket_address.h"

namespace rueda::test {
namespace {

void must(bool fine, const char* what) {
  if (!fine) throw std::runtime_error(what);
}

/// A context that shows a certificate of this moment's making. The caller owns it.
SSL_CTX* context_with_certificate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  must(key != nullptr && certificate != nullptr, "OpenSSL makes no key");
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("impostor"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  must(X509_sign(certificate, key, EVP_sha256()) != 0, "OpenSSL signs no certificate");
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  must(SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1,
       "OpenSSL takes no certificate");
  X509_free(certificate);
  EVP_PKEY_free(key);
  return context;
}

core::UniqueFd listening_socket() {
  core::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto any = core::SocketAddress::parse("127.0.0.1", 0).value();
  must(::bind(fd.get(), any.raw(), any.bytes) == 0 && ::listen(fd.get(), 16) == 0, "no port");
  return fd;
}

/// Moves exactly `bytes` bytes. Returns false if a side ends before. `to` -1: nowhere.
bool pass(int from, int to, size_t bytes) {
  std::array<char, 256> piece{};
  while (bytes > 0) {
    const ssize_t got = ::recv(from, piece.data(), std::min(bytes, piece.size()), 0);
    if (got <= 0) return false;
    if (to >= 0 && ::send(to, piece.data(), static_cast<size_t>(got), MSG_NOSIGNAL) != got) return false;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

/// The hello of a data connection, between its two true ends.
bool pass_hello(int dialler, int listener) {
  return pass(dialler, listener, 1 + core::kHelloFirstBytes) && pass(listener, dialler, core::kHelloSecondBytes) &&
         pass(dialler, listener, core::kHelloThirdBytes) && pass(listener, dialler, 1);
}

void limit_reads(int fd) {
  const timeval limit{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

}  // namespace

struct CertificateServer::State {
  explicit State(const Options& chosen) : options(chosen), thread([this] { serve(); }) {}
  ~State() {
    ::shutdown(listening.get(), SHUT_RDWR);  // ends accept
    thread.join();
    SSL_CTX_free(context);
  }

  void serve() {
    sigset_t broken;  // OpenSSL writes to sockets that the dialler may have closed
    ::sigemptyset(&broken);
    ::sigaddset(&broken, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken, nullptr);
    for (;;) {
      const core::UniqueFd fd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      limit_reads(fd.get());
      deceive(fd.get());
    }
  }

  void deceive(int fd) {
    core::UniqueFd behind;
    if (options.hello_from != 0) {
      behind = core::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      limit_reads(behind.get());
      const auto address = core::SocketAddress::parse("127.0.0.1", options.hello_from).value();
      if (::connect(behind.get(), address.raw(), address.bytes) != 0 || !pass_hello(fd, behind.get())) return;
    }
    if (!pass(fd, -1, options.ignored_bytes)) return;
    {
      core::MutexLock lock(mutex);
      ++begun;
    }
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    std::array<char, 4096> bytes{};
    if (SSL_accept(ssl) == 1) {
      for (int got; (got = SSL_read(ssl, bytes.data(), static_cast<int>(bytes.size()))) > 0;) {
        core::MutexLock lock(mutex);
        words.append(bytes.data(), static_cast<size_t>(got));
      }
    }
    SSL_free(ssl);
  }

  const Options options;
  const core::UniqueFd listening = listening_socket();
  SSL_CTX* const context = context_with_certificate();
  core::Mutex mutex;
  int begun RUEDA_GUARDED_BY(mutex) = 0;
  std::string words RUEDA_GUARDED_BY(mutex);
  std::thread thread;  // last: it uses all others
};

CertificateServer::CertificateServer(const Options& options) : state_(std::make_unique<State>(options)) {}
CertificateServer::~CertificateServer() = default;

uint16_t CertificateServer::port() const { return core::bound_port(state_->listening.get()).value(); }

int CertificateServer::handshakes() const {
  core::MutexLock lock(state_->mutex);
  return state_->begun;
}

std::string CertificateServer::heard() const {
  core::MutexLock lock(state_->mutex);
  return state_->words;
}

}  // namespace rueda::test
