#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/store/death.h"
#include "runtime/store/store_server.h"

namespace rueda::core::launcher {

/// The store of one job and what the judge reads and writes there: the ranks write that they began and that they said
/// goodbye, hvdrun writes who died. Serves under a key drawn for this job. Used by one thread.
class JobStore {
 public:
  /// What ranks do, told on the server's thread.
  struct Events {
    std::function<void(int rank)> began;   ///< once for each rank that begins `init`
    std::function<void(int rank)> leaves;  ///< whenever a rank begins to shut down
    std::function<void()> evidence;        ///< once, when there is some
  };
  /// Listens on these numeric addresses. kSystem: no randomness, or the store's own sentence.
  static Result<std::unique_ptr<JobStore>> start(int ranks, const std::vector<std::string>& addresses, Events events);

  const std::string& job() const { return job_; }
  std::string key() const;
  uint16_t port() const { return server_->port(); }
  /// Whether every `init` of the rank was followed by its goodbye, or failed, or led to an epoch that failed and was
  /// shut down before the next one.
  bool said_goodbye(int rank);
  /// The ranks below `ranks` whose every `init` was followed by the beginning of a `shutdown`, or came to nothing as
  /// above.
  std::vector<int> away(int ranks);
  /// What a rank has seen of another that waitpid does not tell: a rank, and how it died.
  std::optional<DeathVerdict> evidence();
  /// What the epoch of the rank's last `init` had failed of before its `shutdown`, if that is how it ended.
  std::optional<std::string> failure_before_shutdown(int rank);
  /// The judge's verdict, for whatever epoch the ranks are in: all of them raise at once. To be called once.
  Status declare_dead(int rank, const std::string& host, int64_t pid, const std::string& cause);
  /// Asks all ranks for their flight records; the request's number. `answered(number)` is called for each of `ranks`
  /// that gives its own, on the server's thread.
  int64_t ask_for_dumps(const std::vector<int>& ranks, const std::function<void(int64_t number)>& answered);
  /// What came of these ranks; the store keeps it no longer.
  std::vector<std::string> dumps(int64_t number, const std::vector<int>& ranks);

 private:
  JobStore() = default;
  bool settled(int rank, const std::string& key);
  std::string job_;
  JobKey key_;
  int64_t dumps_ = 0;
  std::unique_ptr<StoreServer> server_;
};

}  // namespace rueda::core::launcher
