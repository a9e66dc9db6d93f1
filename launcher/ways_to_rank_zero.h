#pragma once
#include <functional>
#include <string>

#include "launcher/job_hosts.h"

namespace rueda::core::launcher {

/// Finds out on which way each host reaches that of rank 0, before any rank is started: rank 0's agent listens, the
/// others connect. Of the job's thread.
class WaysToRankZero {
 public:
  /// `say`: a line about a host. `done`: all have answered; not called where there is no other host.
  WaysToRankZero(JobHosts& hosts, std::function<void(const std::string&)> say, std::function<void()> done)
      : hosts_(hosts), say_(std::move(say)), done_(std::move(done)) {}

  /// `interfaces`: as in RUEDA_NETWORK_INTERFACES.
  void ask(const std::string& interfaces);
  /// Answers of agents.
  void listening(const Message& message);
  void reached(size_t host, const Message& message);

 private:
  JobHosts& hosts_;
  const std::function<void(const std::string&)> say_;
  const std::function<void()> done_;
  size_t answers_ = 0;
};

}  // namespace rueda::core::launcher
