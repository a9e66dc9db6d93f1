#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

class TlsContext;

/// A data connection whose two ends have proven the job key to each other.
struct DataSocket {
  UniqueFd fd;                      ///< invalid if there is none
  std::shared_ptr<TlsContext> tls;  ///< the context of its encryption; null for plain data
};

/// The event loop of a lane's data sockets, which the holder of the lane's token runs, and the connections that the
/// coordinator's listener has proven for the lane. The transport and the lane's channel set share it, so a late wake
/// never meets a loop that is gone.
class LaneLoop {
 public:
  /// Lane thread.
  boost::asio::io_context& io() { return io_; }
  /// Hands over connection `number` from `rank`. A newer one replaces one not yet taken. Coordinator thread.
  void hand_over(int rank, uint32_t number, DataSocket socket) RUEDA_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      arrived_[{rank, number}] = std::move(socket);
    }
    wake();
  }
  /// Returns the connection, invalid while none has arrived. Lane thread.
  DataSocket take(int rank, uint32_t number) RUEDA_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = arrived_.find({rank, number});
    if (found == arrived_.end()) return {};
    DataSocket socket = std::move(found->second);
    arrived_.erase(found);
    return socket;
  }
  /// Makes a wait in the loop look again. Any thread.
  void wake() {
    boost::asio::post(io_, [] {});
  }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  Mutex mutex_;
  std::map<std::pair<int, uint32_t>, DataSocket> arrived_ RUEDA_GUARDED_BY(mutex_);
};

}  // namespace rueda::core
