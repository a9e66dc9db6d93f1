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
  /// Dials with growing pauses until the server has answered a first request: a server that many strangers crowd may
  /// drop a connection before that. Returns kTimeout with the last cause; kSystem if the server has another key, or if
  /// this side has no key and the server gave no answer.
  static Result<std::unique_ptr<StoreConnection>> open(const StoreLocation& where, Deadline deadline);
  ~StoreConnection();

  /// Starts one exchange; the one before must be done. Once `done`, `reply` has the reply or why the connection broke.
  void start(const StoreRequest& request);
  bool done() const { return done_; }
  Result<StoreReply>& reply() { return reply_; }
  boost::asio::io_context& io() { return io_; }
  /// For a caller that runs `io` and sends requests without `start`.
  StorePipe& pipe() { return pipe_; }
  /// The socket: readable when a reply comes or the stream ends.
  int fd() const { return fd_; }

 private:
  StoreConnection(UniqueFd socket, std::shared_ptr<TlsContext> tls);
  /// Shakes hands and waits for the first answer. Returns kPeerLost or kTimeout if the next attempt may succeed,
  /// kSystem if it cannot. A server with a key drops a client without one, which looks the same as a server full of
  /// strangers.
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
