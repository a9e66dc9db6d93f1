#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/store/store.h"
#include "runtime/store/store_listener.h"

namespace rueda::core {

struct StoreServerOptions : StoreListenOptions {
  std::string end_key;  ///< once it holds a DeathVerdict, a `get` of what is absent fails with it
};

/// The store that others reach over TCP, and this process through the functions of `Store`: any number of threads at a
/// time. Runs its own thread, which ends with it.
class StoreServer : public Store {
 public:
  /// As `StoreListener::start`.
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options);
  /// Drops all clients; they see the stream end.
  ~StoreServer() override;
  uint16_t port() const;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  bool ends_with_process() const override { return true; }
  std::string turned_away() override;
  /// Calls back once when the key has a value, at once if it has: for an event loop. `call` runs on the server's thread
  /// and may not call the server; it is dropped with the server.
  void when_set(std::string_view key, std::function<void()> call);
  /// As `when_set`, but calls back whenever a value is given to the key from now on.
  void each_time(std::string_view key, std::function<void()> call);

 private:
  struct State;
  explicit StoreServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
