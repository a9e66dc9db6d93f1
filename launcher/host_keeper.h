#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/job_hosts.h"
#include "runtime/base/deadline.h"

namespace rueda::core::launcher {

/// Keeps an agent on each host that a changing list names: reaches new ones, tries again those that cannot be reached
/// or are lost, and lets go of those that are listed no more. Belongs to the loop's thread.
class HostKeeper {
 public:
  struct Events {
    std::function<void(size_t host)> answered;  ///< the agent waits for its order; `ready` is to follow
    std::function<void(size_t host)> ready;     ///< workers may start there
    /// A host that was ready is no more. `why` is a clause that continues its name.
    std::function<void(size_t host, const std::string& why)> gone;
    std::function<void()> settled;  ///< once: each host of the first list is ready or has failed
    std::function<void(const std::string&)> say;
  };
  /// How long a host rests before it is tried again: after its first failure, and at most.
  struct Rests {
    std::chrono::milliseconds first{2000};
    std::chrono::milliseconds longest{60000};
  };
  /// `hosts` outlives it. `limit`: for a host to answer; zero means never.
  HostKeeper(EventLoop& loop, JobHosts& hosts, JobHosts::Command command, std::chrono::milliseconds limit, Rests rests,
             Events events);

  /// The list of hosts now.
  void list(const std::vector<HostSlots>& hosts);
  /// The host is about to go. It is tried again the longest rest after it was let go of, or once it is listed anew.
  void preempted(size_t host);
  /// Lets go of hosts that are not listed, or about to go, and not in `busy`, and returns their names. They are not
  /// `gone`.
  std::vector<std::string> let_go(const std::set<std::string>& busy);
  /// News of JobHosts about a host. `lost` may come twice.
  void answered(size_t host) { events_.answered(host); }
  void lost(size_t host, const std::string& why);
  void left(size_t host);
  /// The agent has taken its order.
  void ready(size_t host);
  /// Reaches no more hosts, and gives up those that have not answered.
  void end();

 private:
  enum class State {
    kAway,    ///< it has no agent
    kComing,  ///< its agent is being started, or has not taken its order
    kHere,
    kLeaving,  ///< its agent is lost or told to end, and not gone yet
  };
  struct Site {
    Site(EventLoop& loop, HostSlots slots) : host(std::move(slots)), retry(loop) {}
    HostSlots host;
    State state = State::kAway;
    bool listed = true;
    bool preempted = false;
    int failures = 0;  // since it was last ready for long
    SteadyClock::time_point since;
    std::string said;  // the last failure that the user was told
    Timer retry;
  };
  void come(size_t index);
  void come_later(size_t index);
  std::chrono::milliseconds rest_of(const Site& site) const;
  void fail(size_t index, const std::string& why);
  void settle();

  EventLoop& loop_;
  JobHosts& hosts_;
  const JobHosts::Command command_;
  const std::chrono::milliseconds limit_;
  const Rests rests_;
  const Events events_;
  std::map<size_t, Site> sites_;  // by their index in hosts_
  bool settled_ = false;
  bool ending_ = false;
};

}  // namespace rueda::core::launcher
