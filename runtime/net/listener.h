#pragma once
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "runtime/base/unique_fd.h"
#include "runtime/net/lane_loop.h"
#include "runtime/net/secure_stream.h"
#include "runtime/net/transport_epoch.h"

namespace rueda::core {

class Newcomer;

/// Accepts connections and lets them prove which rank they come from (`Newcomer`). It holds at most 64 connections that
/// have proven nothing; when a 65th comes, it drops the oldest that has sent nothing, or else the oldest. Strangers are
/// dropped without an answer; peers of the job dial again.
///
/// It keeps one descriptor in reserve. When the process has no other left, the reserve takes the next connection, so
/// that a stranger can be told from a peer and dropped. If a peer has it, and another connection waits for half a
/// second, `fault` says so. A connection that has not proven itself when a pause is over is dropped. Owned by the
/// transport; everything on the thread that runs `io`, which outlives it.
class Listener {
 public:
  /// What to do with proven connections. Called inside the loop.
  struct Handlers {
    std::function<void(int rank, std::unique_ptr<SecureStream>)> control;
    std::function<void(int rank, uint32_t number, DataSocket)> data;
  };
  /// `sockets`: listening, non-blocking. `tls` null: control connections are plain. Starts accepting.
  Listener(boost::asio::io_context& io, std::vector<UniqueFd> sockets, const TransportEpoch& epoch,
           std::shared_ptr<TlsContext> tls, Handlers handlers);
  ~Listener();
  /// Why this process can accept no connection that waits, or ok.
  const Status& fault() const { return fault_; }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  struct Port;
  void accept_next(Port& port);
  void accept_all(Port& port);
  void rest(Port& port, int error);
  void refill_reserve();
  void drop_oldest();
  void admit(UniqueFd fd);
  void finish(Newcomer& newcomer, const Status& status);
  Status hand_over(Newcomer& newcomer);

  boost::asio::io_context& io_;
  const TransportEpoch& epoch_;
  std::shared_ptr<TlsContext> tls_;
  Handlers handlers_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::list<std::unique_ptr<Newcomer>> newcomers_;  // oldest first
  UniqueFd reserve_;
  Status fault_;
  std::shared_ptr<bool> alive_;  // false once destroyed: cancelled handlers still run
};

}  // namespace rueda::core
