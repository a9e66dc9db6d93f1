#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace rueda::test {

/// An impostor: a TLS server on 127.0.0.1 that ignores the pre-shared key it is offered and shows a self-signed
/// certificate. Serves one connection after the other on a thread of its own, which ends with it. It waits at most 10 s
/// for each read. Functions may be called on any thread.
class CertificateServer {
 public:
  struct Options {
    /// Bytes that it reads and ignores before TLS begins: a control connection's first byte.
    size_t ignored_bytes = 0;
    /// A port of 127.0.0.1. If set, the impostor passes the plain hello of a data connection on to the listener there,
    /// and back, and begins TLS itself behind it: a man in the middle.
    uint16_t hello_from = 0;
  };
  explicit CertificateServer(const Options& options);
  CertificateServer() : CertificateServer(Options()) {}
  ~CertificateServer();
  CertificateServer(const CertificateServer&) = delete;
  CertificateServer& operator=(const CertificateServer&) = delete;

  uint16_t port() const;
  /// How many TLS handshakes were begun, whatever became of them.
  int handshakes() const;
  /// What diallers sent under TLS to a server without the key, in the clear.
  std::string heard() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rueda::test
