#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/store/store_client.h"

namespace rueda::core {

/// Lets processes of this host share one connection to a StoreServer elsewhere: they reach it as if it were here, under
/// the same key and name. Runs its own thread, which ends with it. What is asked once the connection is broken fails
/// with kSystem, in words that name the server.
class StoreRelay {
 public:
  /// Listens on these addresses with one port, `whose` says in its sentences whose relay this is. As
  /// `StoreClient::connect` and `StoreListener::start`.
  static Result<std::unique_ptr<StoreRelay>> start(const StoreLocation& where,
                                                   const std::vector<std::string>& addresses, std::string whose,
                                                   Deadline deadline);
  /// Drops all clients.
  ~StoreRelay();
  uint16_t port() const;

 private:
  struct State;
  explicit StoreRelay(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rueda::core
