#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "launcher/event_loop.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// Answers `hvdrun --signal-removal` and `hvdrun --signal-hosts`: the hvdrun of an elastic job listens on an abstract
/// Unix socket named for its pid, and processes of the same user in the same network namespace tell it what is to
/// change. Serves one visitor at a time; others wait in the socket's queue, and one that sends nothing is dropped.
/// Belongs to the loop's thread.
class NoticeDesk {
 public:
  /// Each returns what the user is told, or an error that becomes the answer.
  struct Notices {
    std::function<Result<std::string>(const std::string& host)> removal;  ///< this host is about to go
    std::function<Result<std::string>()> hosts;                           ///< the list of hosts has changed
  };
  NoticeDesk(EventLoop& loop, Notices notices);
  /// Begins to listen. Returns kSystem if the socket's name cannot be bound.
  Status open();

 private:
  void await();
  void accept();
  void read();
  void leave();
  Result<std::string> take(const std::string& request) const;

  EventLoop& loop_;
  const Notices notices_;
  UniqueFd listener_, visitor_;
  std::unique_ptr<FdWatch> visits_, request_;
  Timer patience_;
};

/// Tells the hvdrun with this pid that a host of its elastic job is about to go. Returns what it answers, one sentence.
/// Blocks until it answers, at most kAnswerLimit. Returns kInvalidArgument if this user has no such hvdrun here, or if
/// it has no such host; kSystem if it ended before it answered or did not answer in time.
Result<std::string> signal_removal(int64_t pid, const std::string& host);

/// Tells the hvdrun with this pid that the hosts of its elastic job have changed, so that it runs its discovery script
/// at once. Blocks and returns as `signal_removal`; kInvalidArgument also if the job has no such script.
Result<std::string> signal_hosts(int64_t pid);

}  // namespace rueda::core::launcher
