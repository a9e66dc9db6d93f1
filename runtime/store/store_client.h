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

/// Where a StoreServer is, and what proves that we belong to its job.
struct StoreLocation {
  std::string host;  ///< a name or a numeric address
  uint16_t port = 0;
  std::string job = "job";
  JobKey key;  ///< not present: plain
};

/// "host:port", "[v6]:port". kInvalidArgument says what was given and what is allowed.
Result<StoreLocation> parse_store_address(const std::string& text);

/// A store in another process. One thread at a time; its calls block. Owns one connection, which is not made again when
/// it breaks: every later call fails with the same kSystem, and the caller connects anew.
class StoreClient : public Store {
 public:
  /// Waits for the server to come. kTimeout: address and last cause. kSystem: the server has another key.
  static Result<std::unique_ptr<StoreClient>> connect(const StoreLocation& where, Deadline deadline);
  ~StoreClient() override;

  /// `set` and `add` give the server 10 s to answer: then kSystem.
  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  Result<int64_t> add(std::string_view key, int64_t amount) override;
  /// Whether the connection has.
  bool broken() const { return !broken_.ok(); }

 private:
  explicit StoreClient(StoreLocation where, std::unique_ptr<StoreConnection> connection);
  Result<StoreReply> call(const StoreRequest& request, Deadline deadline);
  StoreLocation where_;
  std::unique_ptr<StoreConnection> connection_;
  Status broken_;
};

/// Waits for one key on a connection of its own without blocking: for an event loop. One thread at a time.
class StoreWatch {
 public:
  static Result<std::unique_ptr<StoreWatch>> start(const StoreLocation& where, const std::string& key,
                                                   Deadline deadline);
  ~StoreWatch();
  /// Stays the watch's. Readable when `take` may have something to say.
  int fd() const;
  /// Never blocks. Empty: nothing yet. Else, again and again, the value, or kSystem: the server has gone.
  std::optional<Result<std::string>> take();
  /// Sets another key's value and does not wait for the answer. Never blocks.
  void tell(const std::string& key, const std::string& value);
  /// After `take` gave a value: waits for another key, on the same connection.
  void next(const std::string& key);

 private:
  StoreWatch(std::string name, std::unique_ptr<StoreConnection> connection);
  std::string name_;
  std::unique_ptr<StoreConnection> connection_;
};

}  // namespace rueda::core
