#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/job_store.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Answers `hvdrun --dump`: a running hvdrun listens on an abstract Unix socket named for its pid and gives the flight
/// records of its ranks to processes of the same user in the same network namespace. Serves one visitor at a time;
/// others wait in the socket's queue. If the first records show a wait that may only be a passing moment, it asks the
/// ranks again 0.7 s later and answers from the second. Belongs to the loop's thread.
class DumpDesk {
 public:
  /// Whom to ask.
  struct Expected {
    std::vector<int> ranks;   ///< that can still answer
    std::vector<int> unsure;  ///< those of them that may have no engine now; only the others are worth a long wait
  };
  /// `loop` and `store` outlive the desk.
  DumpDesk(EventLoop& loop, JobStore& store, std::function<Expected()> expected);
  /// Begins to listen. Returns kSystem if the socket's name cannot be bound.
  Status open();
  /// If a visitor waits for the second look, it gets the first: the job is over.
  ~DumpDesk();

 private:
  void accept();
  void begin(UniqueFd visitor);
  void ask();
  void note(int64_t number, int rank);
  void wait_for_answers();
  void look();
  void answer(const std::string& merged);

  EventLoop& loop_;
  JobStore& store_;
  std::function<Expected()> expected_;
  UniqueFd listener_;
  std::unique_ptr<FdWatch> watch_;
  std::unique_ptr<Timer> patience_;
  UniqueFd visitor_;
  std::vector<int> asked_;
  std::set<int> sure_, unsure_;  // of these, those that have not answered yet
  int64_t number_ = 0;
  std::string first_look_;  // JSON; empty until then
};

/// Asks the hvdrun with this pid and returns the merged records as JSON, see `MergedDumps`. Blocks until it answers, at
/// most 15 s. Returns kInvalidArgument if this user has no such hvdrun here, kSystem if it ended before it answered or
/// did not answer in time.
Result<std::string> fetch_dump(int64_t pid);

}  // namespace rueda::core::launcher
