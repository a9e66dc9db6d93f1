#pragma once
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "runtime/base/unique_fd.h"
#include "runtime/net/hello.h"
#include "runtime/net/secure_stream.h"

namespace rueda::core {

/// A connection that has proven nothing yet, on the listening side. It has 2 s and sends at most 1 KiB (apart from TLS,
/// the fixed bytes of the hello):
///
///   purpose byte ▶ [TLS handshake, control only] ▶ hello: first, second, third ▶ accepted byte
///
/// Owned by the `Listener`, on its thread.
class Newcomer {
 public:
  /// Called once, inside the loop; may destroy the newcomer.
  using Finished = std::function<void(Newcomer&, const Status&)>;

  Newcomer(boost::asio::io_context& io, UniqueFd fd, HelloScope scope, std::shared_ptr<TlsContext> tls);
  ~Newcomer();
  void start(Finished finished);
  /// True while it has sent nothing.
  bool silent() const { return silent_; }
  /// What the peer proved, after the exchange finished well.
  const HelloRoute& route() const { return hello_.route(); }
  /// The key for TLS behind its hello, after it finished well.
  Result<SecretKey> stream_key() const { return hello_.stream_key(); }
  std::unique_ptr<SecureStream> take_stream() { return std::move(stream_); }

 private:
  void read_purpose();
  void secure();
  void bind_hello();
  void read_first();
  void answer();
  void read_third();
  void accept();
  void end(const Status& status);
  /// Continues with `next` after a successful operation, else ends.
  SecureStream::Done then(void (Newcomer::*next)());

  boost::asio::io_context& io_;
  std::shared_ptr<TlsContext> tls_;
  std::unique_ptr<SecureStream> stream_;
  HelloListener hello_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<bool> alive_;  // false once destroyed: a cancelled timer still calls its handler
  Finished finished_;
  HelloPurpose purpose_ = HelloPurpose::kData;
  bool silent_ = true;
  std::byte letter_{};
  HelloFirst first_{};
  HelloSecond second_{};
  HelloThird third_{};
};

}  // namespace rueda::core
