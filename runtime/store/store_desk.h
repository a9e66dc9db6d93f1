#pragma once
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/store/key_table.h"
#include "runtime/store/store_protocol.h"

namespace rueda::core {

/// Answers what the clients of a StoreListener ask. Belongs to the thread that runs the listener's loop, and outlives
/// all whom it may answer.
class StoreDesk {
 public:
  using Answer = std::function<void(StoreReply)>;
  virtual ~StoreDesk() = default;
  /// Calls `answer` once, perhaps before it returns, unless the request is cancelled; ids are the caller's to set. The
  /// number, never 0, cancels it. Not for StoreOperation::kCancel.
  virtual uint64_t ask(const StoreRequest& request, Answer answer) = 0;
  /// The answer will not be called; nothing where it was.
  virtual void cancel(uint64_t number) = 0;
};

/// What needs no waiting: `set` and `add`.
StoreReply change(KeyTable& table, const StoreRequest& request);

/// The desk of a table.
class TableDesk : public StoreDesk {
 public:
  /// `table` outlives it. `end_key`: as in StoreServerOptions.
  TableDesk(boost::asio::io_context& io, KeyTable& table, std::string end_key);
  ~TableDesk() override;
  uint64_t ask(const StoreRequest& request, Answer answer) override;
  void cancel(uint64_t number) override;

 private:
  struct Waiting {
    Answer answer;
    boost::asio::steady_timer limit;
    uint64_t value = 0;  ///< in the table
    uint64_t end = 0;    ///< the same, for the end key; 0: none
  };
  void start_waiting(uint64_t number, const StoreRequest& request, Answer answer);
  void finish(uint64_t number, StoreReply reply);

  boost::asio::io_context& io_;
  KeyTable& table_;
  const std::string end_key_;
  uint64_t asked_ = 0;
  std::map<uint64_t, Waiting> waiting_;
};

}  // namespace rueda::core
