#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/store/job_key.h"
#include "runtime/store/store.h"

namespace rueda::core {

class StoreConnection;
struct StoreReply;
struct StoreRequest;

/// Where a StoreServer is, and the key that proves membership of its job.
struct StoreLocation {
  std::string host;  ///< a name or a numeric address
  uint16_t port = 0;
  std::string job = "job";
  JobKey key;  ///< if not present, the connection is plain
  /// Where rank 0 says that it cannot serve (store_notice.h); empty if rank 0 may be on another host.
  std::string notice = {};
};

/// Reads "host:port" or "[v6]:port". Returns kInvalidArgument with what was given and what is allowed.
Result<StoreLocation> parse_store_address(const std::string& text);

/// A store in another process. One thread at a time; its calls block. Owns one connection and does not renew it: once
/// it breaks, every call returns the same kSystem, and the caller connects anew.
class StoreClient : public Store {
 public:
  /// Waits for the server to come up. Returns kTimeout with address and last cause, kSystem if the server has another
  /// key.
  static Result<std::unique_ptr<StoreClient>> connect(const StoreLocation& where, Deadline deadline);
  ~StoreClient() override;

  /// `set`, `add` and `remove` give the server 10 s to answer, then return kSystem.
  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  Status remove(std::string_view key) override;
  /// Returns true once the connection has broken.
  bool broken() const { return !broken_.ok(); }

 private:
  explicit StoreClient(StoreLocation where, std::unique_ptr<StoreConnection> connection);
  Result<StoreReply> call(const StoreRequest& request, Deadline deadline);
  StoreLocation where_;
  std::unique_ptr<StoreConnection> connection_;
  Status broken_;
};

/// Waits for one key on a connection of its own without blocking, for use in an event loop. One thread at a time.
class StoreWatch {
 public:
  /// Connects, which blocks, and begins to wait. Errors as `StoreClient::connect`.
  static Result<std::unique_ptr<StoreWatch>> start(const StoreLocation& where, const std::string& key,
                                                   Deadline deadline);
  ~StoreWatch();
  /// The watch's own descriptor: readable when `take` may have a result.
  int fd() const;
  /// Returns empty while nothing has come; then, on every call, the value, or kSystem if the server is gone. Never
  /// blocks.
  std::optional<Result<std::string>> take();
  /// Sets another key's value without waiting for the answer. Never blocks.
  void tell(const std::string& key, const std::string& value);
  /// Begins to wait for another key on the same connection. Call it after `take` has returned a value.
  void next(const std::string& key);

 private:
  StoreWatch(std::string name, std::unique_ptr<StoreConnection> connection);
  std::string name_;
  std::unique_ptr<StoreConnection> connection_;
};

}  // namespace rueda::core
