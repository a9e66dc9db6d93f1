#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/rendezvous/epoch_plan.h"
#include "runtime/rendezvous/store.h"

namespace rueda::core {

struct StoreServerOptions {
  /// Numeric, or names of this host, at least one; it listens on these alone, with one port.
  std::vector<std::string> addresses = {"127.0.0.1"};
  uint16_t port = 0;                          ///< 0: the kernel chooses
  std::string job = "job";                    ///< the identity of TLS's key: clients name the same
  JobKey key;                                 ///< not present: plain, for RUEDA_INSECURE=1
  std::chrono::milliseconds proof{2'000};     ///< see StoreSession; without a key: `silence`
  std::chrono::milliseconds silence{10'000};  ///< the same
  std::string end_key;                        ///< once it holds a DeathVerdict, a `get` of what is absent fails with it
  size_t max_unproven = 64;                   ///< when one more comes, the oldest of them is dropped
  size_t max_sessions = 16384;                ///< when one more comes, it is dropped
};

/// The store that others reach over TCP, and this process through the functions of `Store`: any number of threads at a
/// time. Runs its own thread, which ends with it.
class StoreServer : public Store {
 public:
  /// kSystem: the address cannot be listened on (which, and errno), or OpenSSL refused. kInvalidArgument: no such host.
  static Result<std::unique_ptr<StoreServer>> start(const StoreServerOptions& options);
  /// Drops all clients; they see the stream end.
  ~StoreServer() override;
  uint16_t port() const;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  bool ends_with_process() const override { return true; }
  /// Calls back once when the key has a value, at once if it has: for an event loop. `call` runs on the server's thread
  /// and may not call the server; it is dropped with the server.
  void when_set(std::string_view key, std::function<void()> call);

 private:
  struct State;
  explicit StoreServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
