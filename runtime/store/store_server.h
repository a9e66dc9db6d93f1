#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/store/store.h"
#include "runtime/store/store_desk.h"
#include "runtime/store/store_listener.h"

namespace rueda::core {

struct StoreServerOptions : StoreListenOptions {
  StoreWaits waits = StoreWaits::kForValues;
};

/// A store that other processes reach over TCP and this one through the functions of `Store`. Any number of threads at
/// a time. Runs its own thread, which ends with it.
class StoreServer : public Store {
 public:
  /// Starts to listen. Errors as `StoreListener::start`.
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options);
  /// Drops all clients; they see the stream end.
  ~StoreServer() override;
  uint16_t port() const;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  Status remove(std::string_view key) override;
  /// Removes every key that begins with `prefix`, which is not empty, apart from verdicts: a rank that comes late to a
  /// job that is over must not wait for keys that are gone.
  void remove_all(std::string_view prefix);
  bool ends_with_process() const override { return true; }
  std::string turned_away() override;
  /// Calls `call` once when the key gets a value, or now if it has one. `call` runs on the server's thread and must not
  /// call the server. The server drops it at its end.
  void when_set(std::string_view key, std::function<void()> call);
  /// As `when_set`, but calls `call` every time the key gets a value from now on.
  void each_time(std::string_view key, std::function<void()> call);
  /// Drops the calls for this key.
  void forget(std::string_view key);
  /// Drops the calls for every key that begins with `prefix`.
  void forget_all(std::string_view prefix);
  /// Returns how many waits for keys there are, of clients and of this process.
  size_t waiting() const;

 private:
  struct State;
  explicit StoreServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
