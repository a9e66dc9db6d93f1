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

/// Returns whether every `init` of the rank in the job of this name is settled: the counter at `key`, plus the rank's
/// wishes that came to nothing, makes up for all its wishes. False if the rank never began one.
bool is_settled(Store& store, const std::string& job, int rank, const std::string& key);

/// Returns the counter at `key`; 0 if it is not set.
int64_t read_counter(Store& store, const std::string& key);

/// The store of one job, with the keys that the judge reads and writes: ranks write that they began `init` and finished
/// `shutdown`, hvdrun writes which rank died. Clients need the key that is drawn for this job. One thread uses it; only
/// the events come from another.
class JobStore {
 public:
  /// What ranks do. Called on the server's thread; must not block.
  struct Events {
    std::function<void(int rank)> began;   ///< once for each rank, when it first begins `init`
    std::function<void(int rank)> leaves;  ///< whenever a rank begins to shut down
    std::function<void()> evidence;        ///< once, when a rank first reports another one as dead
  };
  /// Listens on these numeric addresses, all at one port. Returns kSystem if the kernel gives no random bytes, or the
  /// error of the store's server.
  static Result<std::unique_ptr<JobStore>> start(int ranks, const std::vector<std::string>& addresses, Events events);

  const std::string& job() const { return job_; }
  std::string key() const;
  uint16_t port() const { return server_->port(); }
  StoreServer& server() { return *server_; }
  /// Returns whether every `init` of the rank is settled: its `shutdown` is done, or the `init` failed, or its epoch
  /// failed and was shut down before the next `init`. False if the rank never began one.
  bool said_goodbye(int rank);
  /// Returns the ranks below `ranks` that have begun a `shutdown` for each `init` that did not come to nothing as
  /// above.
  std::vector<int> away(int ranks);
  /// Returns what a rank has reported of another that waitpid does not show: that rank, and how it died.
  std::optional<DeathVerdict> evidence();
  /// Returns the failure of the rank's last epoch, if the epoch failed before the rank's `shutdown`.
  std::optional<std::string> failure_before_shutdown(int rank);
  /// Writes the judge's verdict, which holds for any epoch: all ranks raise at once. Call it once.
  Status declare_dead(int rank, const std::string& host, int64_t pid, const std::string& cause);
  /// Asks all ranks for their flight records and returns the number of the request. Calls `answered(number, rank)` on
  /// the server's thread for each of `ranks` that answers.
  int64_t ask_for_dumps(const std::vector<int>& ranks, const std::function<void(int64_t number, int rank)>& answered);
  /// Returns the records that these ranks have given for a request, and frees them in the store.
  std::vector<std::string> dumps(int64_t number, const std::vector<int>& ranks);

 private:
  JobStore() = default;
  std::string job_;
  JobKey key_;
  int64_t dumps_ = 0;
  std::unique_ptr<StoreServer> server_;
};

}  // namespace rueda::core::launcher
