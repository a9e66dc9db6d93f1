#pragma once
#include <functional>
#include <string>

#include "launcher/job_hosts.h"

namespace rueda::core::launcher {

/// Finds out how each host reaches rank 0's host, before any rank starts: the agent of that host listens, the others
/// connect. Used with --verbose alone. Belongs to the loop's thread.
class WaysToRankZero {
 public:
  /// Calls `say` with a line about each other host, and `done` once all have answered. Needs at least two hosts.
  WaysToRankZero(JobHosts& hosts, std::function<void(const std::string&)> say, std::function<void()> done)
      : hosts_(hosts), say_(std::move(say)), done_(std::move(done)) {}

  /// Begins. `interfaces` is as in RUEDA_NETWORK_INTERFACES.
  void ask(const std::string& interfaces);
  /// The answers of agents: kListening and kReached.
  void listening(const Message& message);
  void reached(size_t host, const Message& message);

 private:
  JobHosts& hosts_;
  const std::function<void(const std::string&)> say_;
  const std::function<void()> done_;
  size_t answers_ = 0;
};

}  // namespace rueda::core::launcher
