#pragma once
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "runtime/store/key_table.h"
#include "runtime/store/store_protocol.h"

namespace rueda::core {

/// Answers the requests of a StoreListener's clients. Belongs to the thread that runs the listener's loop, and outlives
/// every session it may answer.
class StoreDesk {
 public:
  using Answer = std::function<void(StoreReply)>;
  virtual ~StoreDesk() = default;
  /// Calls `answer` once, perhaps before `ask` returns, unless the request is cancelled. The caller sets the reply's
  /// id. Returns the number for `cancel`, never 0. Not for StoreOperation::kCancel. If it throws, for want of memory,
  /// `answer` is not called any more.
  virtual uint64_t ask(const StoreRequest& request, Answer answer) = 0;
  /// Drops the request's answer. Does nothing if it has been called.
  virtual void cancel(uint64_t number) = 0;
};

/// Carries out `set`, `add` and `remove`, which never wait.
StoreReply change(KeyTable& table, const StoreRequest& request);

/// What ends a client's `get` of an absent key, apart from its value and its deadline.
enum class StoreWaits {
  kForValues,    ///< nothing
  kForJobsToEnd  ///< the DeathVerdict under the key's `end_key` (store_keys.h), with which the `get` then fails
};

/// The desk of a table.
class TableDesk : public StoreDesk {
 public:
  /// `table` outlives it.
  TableDesk(boost::asio::io_context& io, KeyTable& table, StoreWaits waits);
  ~TableDesk() override;
  uint64_t ask(const StoreRequest& request, Answer answer) override;
  void cancel(uint64_t number) override;

 private:
  struct Waiting {
    Answer answer;
    boost::asio::steady_timer limit;
    uint64_t value = 0;  ///< the table's waiter for the key
    uint64_t end = 0;    ///< its waiter for the end key; 0 if there is none
  };
  void start_waiting(uint64_t number, const StoreRequest& request, Answer answer);
  template <typename Make>
  void finish(uint64_t number, Make&& make);

  boost::asio::io_context& io_;
  KeyTable& table_;
  const StoreWaits waits_;
  uint64_t asked_ = 0;
  std::map<uint64_t, Waiting> waiting_;
};

}  // namespace rueda::core
