#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/rendezvous/store_server.h"

namespace rueda::core::launcher {

/// The store of one job and what the judge reads and writes there: the ranks write that they began and that they said
/// goodbye, hvdrun writes who died. Serves under a key drawn for this job. Used by one thread.
class JobStore {
 public:
  /// Listens on these numeric addresses. `began` is called once for each rank that begins `init`, on the server's
  /// thread. kSystem: no randomness, or the store's own sentence.
  static Result<std::unique_ptr<JobStore>> start(int ranks, const std::vector<std::string>& addresses,
                                                 std::function<void(int rank)> began);

  const std::string& job() const { return job_; }
  std::string key() const;
  uint16_t port() const { return server_->port(); }
  /// Whether every `init` of the rank was followed by its goodbye.
  bool said_goodbye(int rank);
  /// The judge's verdict, for whatever epoch the ranks are in: all of them raise at once. To be called once.
  Status declare_dead(int rank, const std::string& host, int64_t pid, const std::string& cause);

 private:
  JobStore() = default;
  std::string job_;
  JobKey key_;
  std::unique_ptr<StoreServer> server_;
};

}  // namespace rueda::core::launcher
