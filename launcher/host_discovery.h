#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/host_link.h"
#include "launcher/hosts.h"
#include "runtime/base/deadline.h"

namespace rueda::core::launcher {

/// The most bytes that a host discovery script may print: 64 Ki lines of 16 bytes.
inline constexpr size_t kMostDiscovered = 1u << 20;

/// Returns how long after a good run, which took `took`, the next one begins: `every` after its start, and in any case
/// 100 ms after its end, or `every` if that is shorter.
std::chrono::milliseconds rest_after_success(std::chrono::milliseconds every, std::chrono::milliseconds took);
/// Returns the interval while the job waits for hosts: a quarter of `every`, but at least twice the time of the last
/// run, which took `took`, and at most `every`.
std::chrono::milliseconds interval_in_need(std::chrono::milliseconds every, std::chrono::milliseconds took);
/// Returns how long after the last of so many failures, 1 or more with no good run between them, the next run begins:
/// `every` after the first, then twice as long each time up to 32 times `every`, and at most 30 s or `every`.
std::chrono::milliseconds rest_after_failures(std::chrono::milliseconds every, int failures);

/// Runs --host-discovery-script again and again, and reports each change of the hosts that it prints. An agent of
/// its own runs it, on this host: it ends the script and all that the script started, after a limit, with hvdrun, or
/// once the script has ended. Belongs to the loop's thread. Events come from the loop.
class HostDiscovery {
 public:
  struct Script {
    std::string command;                     ///< a program's path, or a line for /bin/sh
    int slots = 1;                           ///< of hosts for which it prints none
    std::string directory;                   ///< in which it runs
    std::chrono::milliseconds every{1000};   ///< from the start of a run to that of the next
    std::chrono::milliseconds limit{10000};  ///< the longest time of a run
  };
  struct Events {
    /// The script has printed a list, the first one or another than before.
    std::function<void(const std::vector<HostSlots>&)> listed;
    /// Once instead of the first list: why there is none, as a sentence. The script is not run again.
    std::function<void(std::string)> failed;
    std::function<void(std::string)> say;  ///< a line for the user: a later run failed
    std::function<void()> over;            ///< once and last, after `end`: no process of it is left
  };
  HostDiscovery(EventLoop& loop, Script script, Events events);
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;

  /// Starts the agent, and the script once that answers. Returns kSystem if no process can be started.
  Status start();
  /// Runs the script without waiting for its next time, or once more if it runs at this moment.
  void run_now();
  /// Says whether the job has too few hosts to go on. Then the script runs at once, and more often for a minute.
  void need(bool more);
  /// Ends script and agent. May be called again.
  void end();
  bool over() const { return over_; }

 private:
  /// One run of the script.
  struct Run {
    SteadyClock::time_point began;
    std::string output, errors;
    int open_streams = 2;
    std::optional<int> wait_status;
    std::string broken;  // why it is being ended before its time
  };
  Status start_agent();
  void order();
  void run_again(std::chrono::milliseconds after);
  void run();
  void receive(const Message& message);
  void take(const Message& message);
  void stop_run(std::string why);
  void judge();
  Result<std::vector<HostSlots>> read(const Run& run) const;
  void fail(const std::string& why);
  void agent_over();

  EventLoop& loop_;
  const Script script_;
  const Events events_;
  std::unique_ptr<HostLink> agent_;
  std::unique_ptr<SignalWatch> child_;
  Timer timer_;  // until the next run, or until the present one has taken too long
  std::optional<Run> run_;
  int runs_ = 0;
  int failures_ = 0;  // one after the other
  std::optional<std::vector<HostSlots>> last_;
  bool resting_ = false;  // timer_ starts the next run
  bool asked_ = false;    // by `run_now`, since the last run began
  std::optional<SteadyClock::time_point> in_need_since_;
  bool ending_ = false;
  bool over_ = false;
};

}  // namespace rueda::core::launcher
