#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/job_store.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Where a running hvdrun is asked for the flight records of its ranks: an abstract socket named for its pid, answered
/// to processes of the same user in the same network namespace. One request at a time; who comes meanwhile waits. What
/// waits in a job may have waited for a moment only: then the ranks are asked again a little later. Lives on the loop's
/// thread.
class DumpDesk {
 public:
  /// `expected` tells the ranks that can still answer. Both outlive the desk.
  DumpDesk(EventLoop& loop, JobStore& store, std::function<std::vector<int>()> expected);
  /// Begins to listen. kSystem: the name cannot be had.
  Status open();
  /// The job is over: who waits for a second look gets the first.
  ~DumpDesk();

 private:
  void accept();
  void begin(UniqueFd visitor);
  void ask();
  void note(int64_t number);
  void look();
  void answer(const std::string& merged);

  EventLoop& loop_;
  JobStore& store_;
  std::function<std::vector<int>()> expected_;
  UniqueFd listener_;
  std::unique_ptr<FdWatch> watch_;
  std::unique_ptr<Timer> patience_;
  UniqueFd visitor_;
  std::vector<int> asked_;
  int64_t number_ = 0;
  size_t answers_ = 0;
  std::string first_look_;  // empty before it
};

/// Asks the hvdrun with this pid. The merged records as JSON, see `MergedDumps`. kInvalidArgument: there is no such
/// hvdrun of this user here. kSystem: it went away. Blocks.
Result<std::string> fetch_dump(int64_t pid);

}  // namespace rueda::core::launcher
