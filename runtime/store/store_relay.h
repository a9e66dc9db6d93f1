#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// Lets the processes of this host share one connection to a StoreServer elsewhere: they connect to the relay as if it
/// were the server, with the same key and job name. Runs its own thread, which ends with it. Once the connection is
/// broken, every request returns kSystem and names the server.
class StoreRelay {
 public:
  /// Connects to the server and listens on `addresses` with one port. Sentences begin with `whose`, the name of the
  /// relay's owner. Errors as `StoreClient::connect` and `StoreListener::start`.
  static Result<std::unique_ptr<StoreRelay>> start(const StoreLocation& where,
                                                   const std::vector<std::string>& addresses, std::string whose,
                                                   Deadline deadline);
  /// Drops all clients; they see the stream end.
  ~StoreRelay();
  uint16_t port() const;

 private:
  struct State;
  explicit StoreRelay(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
