#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/host_link.h"

namespace rueda::core::launcher {

/// All hosts of a job: reaches every one, says which it cannot use, and speaks to them together. Belongs to the loop's
/// thread; events come from the loop.
class JobHosts {
 public:
  struct Events {
    /// Once, if every host has an agent of our build.
    std::function<void()> all_here;
    /// Once instead, when each has answered or failed: a sentence for every host that failed.
    std::function<void(std::vector<std::string>)> some_failed;
    std::function<void(size_t host, const Message&)> message;
    /// After `all_here`: the host is no part of the job any more. `why` goes behind its name: "has been silent for 5
    /// s".
    std::function<void(size_t host, std::string why)> lost;
    /// Once, and the last: nothing is left of any.
    std::function<void()> over;
    std::function<void(std::string)> say;  ///< a line for the user
  };

  JobHosts(EventLoop& loop, const std::vector<HostShare>& shares, std::chrono::milliseconds silence, Events events);
  JobHosts(const JobHosts&) = delete;
  JobHosts& operator=(const JobHosts&) = delete;

  /// The words of a command that starts an agent on another host, given the path of hvdrun on this one.
  using Command = std::function<std::vector<std::string>(const HostSlots&, const std::string& hvdrun)>;
  /// Starts agents, by `command` where a host is not this machine. kSystem: one could not even be started; the
  /// destructor ends the others.
  Status start(const Command& command);
  /// Says where `host` is and what it has, as soon as it has answered.
  void describe_hosts() { describe_ = true; }
  /// Time is up: hosts that have not answered have failed.
  void end_waiting(std::chrono::duration<double> waited);
  /// The user has no more patience: hosts that have not answered are given up without a sentence.
  void drop_unanswered();

  size_t count() const { return links_.size(); }
  const HostLink& host(size_t index) const { return *links_[index]; }
  bool answered() const { return reported_; }
  bool any_open() const;
  /// Whether the host of this rank answered of late.
  bool heard_lately(int rank) const;
  void send(size_t host, const Message& message) { links_[host]->send(message); }
  void send_all(const Message& message);
  void owe(size_t host, int64_t bytes) { links_[host]->owe(bytes); }
  void grant();

 private:
  void introduced(size_t host);
  void host_lost(size_t host, const std::string& why);
  void settle();
  void tell_twins();

  EventLoop& loop_;
  Events events_;
  std::vector<std::unique_ptr<HostLink>> links_;
  std::vector<bool> settled_;
  std::vector<std::string> failures_;
  std::unique_ptr<SignalWatch> child_;
  bool describe_ = false;
  bool reported_ = false;  // all_here or some_failed has come
  bool over_ = false;
};

}  // namespace rueda::core::launcher
