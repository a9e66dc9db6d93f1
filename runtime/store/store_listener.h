#pragma once
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/store/job_key.h"
#include "runtime/store/store_session.h"

namespace rueda::core {

struct StoreListenOptions {
  /// Numeric addresses or names of this host, at least one. The listener listens on these alone, with one port.
  std::vector<std::string> addresses = {"127.0.0.1"};
  uint16_t port = 0;                          ///< 0 lets the kernel choose
  std::string job = "job";                    ///< the TLS identity of the key; clients name the same
  JobKey key;                                 ///< if not present, connections are plain (RUEDA_INSECURE=1)
  std::chrono::milliseconds proof{2'000};     ///< see StoreSession; `silence` if there is no key
  std::chrono::milliseconds silence{10'000};  ///< see StoreSession
  size_t max_unproven = 64;                   ///< one more drives out the oldest of them
  size_t max_sessions = 16384;                ///< one more is dropped
};

/// Lets clients of a store in and brings their requests to a desk. Belongs to the thread that runs its loop.
class StoreListener {
 public:
  /// `io` and `desk` outlive it. Returns kSystem if an address cannot be listened on (with address and errno) or
  /// OpenSSL refused the key, kInvalidArgument if a name is unknown.
  static Result<std::unique_ptr<StoreListener>> start(boost::asio::io_context& io, StoreDesk& desk,
                                                      const StoreListenOptions& options);
  /// Drops all clients; they see the stream end.
  ~StoreListener();
  /// Any thread.
  uint16_t port() const { return port_; }
  /// Why it can let no client in that waits: the process has had no descriptor for half a second. Ok otherwise.
  const Status& fault() const { return fault_; }
  /// Says how many connections ended before they were proven, and where the last one came from. Empty if none did.
  std::string turned_away() const;

 private:
  struct Port {
    explicit Port(boost::asio::io_context& io) : acceptor(io), pause(io) {}
    boost::asio::ip::tcp::acceptor acceptor;
    boost::asio::steady_timer pause;  ///< after an accept failed for lack of descriptors
    int pauses = 0;                   ///< in a row
  };
  StoreListener(boost::asio::io_context& io, StoreDesk& desk, const StoreListenOptions& options)
      : io_(io), desk_(desk), options_(options) {}
  Status listen();
  Result<std::vector<UniqueFd>> listen_once();
  void accept(Port& from);
  void accept_later(Port& from, const boost::system::error_code& error);
  void adopt(UniqueFd socket);
  void drop_oldest_unproven();
  void note_end(const StoreSession& session, const std::string& from);

  boost::asio::io_context& io_;
  StoreDesk& desk_;
  const StoreListenOptions options_;
  std::shared_ptr<TlsContext> tls_;
  uint16_t port_ = 0;
  std::list<Port> ports_;
  Status fault_;
  uint64_t next_session_ = 0;
  uint64_t turned_away_ = 0;
  std::string last_turned_away_;                                 ///< address and port
  std::map<uint64_t, std::shared_ptr<StoreSession>> sessions_;   ///< by age
  bool some_are_over_ = false;                                   ///< and still among them
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);  ///< posted handlers check it
};

}  // namespace rueda::core
