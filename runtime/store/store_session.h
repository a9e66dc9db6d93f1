#pragma once
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "runtime/net/secure_stream.h"
#include "runtime/store/store_desk.h"
#include "runtime/store/store_protocol.h"

namespace rueda::core {

/// One client of a StoreListener. Belongs to the listener's thread. A client has `proof` and 1 KiB (apart from TLS) for
/// its handshake and its first whole request. Later it has `silence` for each frame that it began and each answer that
/// it is to take. A client that waits in a `get`, or has nothing to ask, may be silent for ever. Bytes that are no
/// request, and a request with the id of another one, end the session without an answer.
class StoreSession : public std::enable_shared_from_this<StoreSession> {
 public:
  struct Rules {
    std::chrono::milliseconds proof;
    std::chrono::milliseconds silence;
  };
  /// `desk` outlives the session. `ended` is called at most once, when the session is over; drop the session after that
  /// call, not inside. It does not throw.
  StoreSession(boost::asio::io_context& io, UniqueFd socket, std::shared_ptr<TlsContext> tls, StoreDesk& desk,
               Rules rules, std::function<void()> ended);
  ~StoreSession();
  void start();
  /// Whether the client has sent a whole request, and so, if there is a key, has proven it.
  bool proven() const { return proven_; }
  /// Whether it has ended: it takes and gives nothing more.
  bool over() const { return over_; }

 private:
  void arm(boost::asio::steady_timer& timer, std::chrono::milliseconds limit);
  void read_on();
  void on_request(std::span<const std::byte> body);
  void ask(const StoreRequest& request);
  void cancel(uint32_t id);
  void send(const StoreReply& reply);
  void write();
  void end();
  template <typename Step>
  void or_end(Step&& step);

  StoreDesk& desk_;
  const Rules rules_;
  std::function<void()> ended_;
  StoreFrameReader reader_;
  std::deque<std::vector<std::byte>> out_;
  size_t out_bytes_ = 0;
  SecureStream stream_;
  boost::asio::steady_timer read_timer_;
  boost::asio::steady_timer write_timer_;
  std::map<uint32_t, uint64_t> asked_;  ///< the desk's number by the client's id; 0 until the desk has told it
  bool reading_ = false;
  bool proven_ = false;
  bool over_ = false;
};

}  // namespace rueda::core
