#pragma once
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/net/secure_stream.h"
#include "runtime/rendezvous/key_table.h"
#include "runtime/rendezvous/store_protocol.h"

namespace rueda::core {

/// One client of a StoreServer. Belongs to the server's thread. Whoever connects has `proof` and 1 KiB (TLS apart) for
/// its handshake and first whole request, and later `silence` for each frame begun and each answer to be taken; a
/// client that waits in a `get`, or has nothing to ask, may be silent for ever. Bytes that are no request end the
/// session: no answer.
class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  struct Rules {
    std::chrono::milliseconds proof;
    std::chrono::milliseconds silence;
    std::string end_key;  ///< as in StoreServerOptions
  };
  /// `table` outlives the session. `ended` is called at most once, when the session is over; drop it then, not inside.
  StoreSession(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls, KeyTable& table,
               Rules rules, std::function<void()> ended);
  ~StoreSession();
  void start();
  /// It has sent a whole request, and with a key has proven that it knows it.
  bool proven() const { return proven_; }

 private:
  void arm_silence(std::chrono::milliseconds limit);
  void read_request();
  void on_request(std::span<const std::byte> body);
  void answer(const StoreRequest& request);
  void answer_get(const StoreRequest& request);
  void start_waiting(const StoreRequest& request);
  void stop_waiting();
  bool ends(const StoreRequest& request) const { return !rules_.end_key.empty() && request.key != rules_.end_key; }
  void send(const StoreReply& reply);
  void end();

  KeyTable& table_;
  const Rules rules_;
  std::function<void()> ended_;
  StoreFrameReader reader_;
  std::vector<std::byte> out_;
  SecureStream stream_;
  boost::asio::steady_timer silence_timer_;
  boost::asio::steady_timer get_timer_;
  std::optional<uint64_t> waiter_;      ///< in the table, while a get waits
  std::optional<uint64_t> end_waiter_;  ///< the same for the end key
  std::optional<StoreRequest> next_;    ///< came before the last answer had left
  bool answering_ = false;
  bool proven_ = false;
};

}  // namespace rueda::core
