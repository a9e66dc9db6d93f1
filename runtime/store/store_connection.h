#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "runtime/base/deadline.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_pipe.h"

namespace rueda::core {

/// One connection to a StoreServer, with a loop of its own. One thread at a time.
class StoreConnection {
 public:
  /// Dials until the server has answered a first request, with growing pauses: among many strangers it may drop who has
  /// not got so far. kTimeout: says the last cause. kSystem: another key; without one, the first dial that gets no
  /// answer.
  static Result<std::unique_ptr<StoreConnection>> open(const StoreLocation& where, Deadline deadline);
  ~StoreConnection();

  /// Starts one exchange, the last one being done; the reply, or how the connection broke, is in `reply` when `done`.
  void start(const StoreRequest& request);
  bool done() const { return done_; }
  Result<StoreReply>& reply() { return reply_; }
  boost::asio::io_context& io() { return io_; }
  /// For who runs `io` and asks in other ways than `start`.
  StorePipe& pipe() { return pipe_; }
  /// The socket; readable when a reply comes or the stream ends.
  int fd() const { return fd_; }

 private:
  StoreConnection(UniqueFd socket, std::shared_ptr<TlsContext> tls);
  /// Shakes hands and waits for the first answer. kPeerLost, kTimeout: the next attempt may succeed. kSystem: it will
  /// not; a server with a key drops who has none, and looks no different from one that is full of strangers.
  Status introduce(Deadline deadline);

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  const bool keyed_;
  int fd_;
  StorePipe pipe_;
  bool done_ = true;
  Result<StoreReply> reply_;
};

}  // namespace rueda::core
