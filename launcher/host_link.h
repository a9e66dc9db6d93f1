#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent_process.h"
#include "launcher/event_loop.h"
#include "launcher/hosts.h"
#include "launcher/line_cutter.h"
#include "launcher/message_link.h"
#include "runtime/base/deadline.h"

namespace rueda::core::launcher {

/// One host of a job as hvdrun sees it: the process that leads there (a guard here, else ssh or srun), the link to its
/// agent, and whether both live. Belongs to the loop's thread. Events come from the loop, never from inside a call.
class HostLink {
 public:
  struct Events {
    std::function<void()> introduced;             ///< the agent has answered; `introduction` is set
    std::function<void(const Message&)> message;  ///< each later message that is not about the link itself
    /// At most once: the host's ranks that have not ended count as lost. Messages about their ends may still follow.
    /// `why` is a clause that continues "host b", as in "has been silent for 5 s".
    std::function<void(std::string why)> lost;
    std::function<void()> over;                  ///< once and last: no process or link of this host is left here
    std::function<void(std::string_view)> said;  ///< a line that ssh printed after the introduction
  };

  /// `silence`: another host that sends nothing for so long is lost; zero means no limit.
  HostLink(EventLoop& loop, HostShare share, std::chrono::milliseconds silence, Events events);
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  /// Starts a guard here, or `command`, which leads to the other host and tries `hvdrun` as its path there. Call it
  /// once. Returns kSystem if the process cannot be started.
  Status start(const std::vector<std::string>& command, const std::string& hvdrun);
  /// Queues a message. Drops it if the link is closed.
  void send(const Message& message);
  /// Waits no longer for the host and kills the process that leads there. `why` as for `lost`.
  void give_up(std::string why);
  /// Call it after each SIGCHLD.
  void reap();
  /// Notes that output of its ranks was taken; `grant` then allows the agent to send as much again.
  void owe(int64_t bytes) { owed_ += bytes; }
  void grant();

  const HostShare& share() const { return share_; }
  const std::string& name() const { return share_.host.name; }
  const std::optional<Introduction>& introduction() const { return introduction_; }
  /// Returns false if another host has been silent for two ping intervals; true for this host, which is not watched.
  bool heard_lately() const;
  /// Returns whether `start` has succeeded.
  bool started() const { return link_ != nullptr; }
  bool open() const { return link_open_; }
  bool over() const { return over_; }

 private:
  void receive(const Message& message);
  void lose_guard(const std::string& why);
  void meet(const Message& message);
  void ping();
  void closed(const Status& why);
  void lose(std::string why);
  std::string explain() const;
  void watch_silence();
  std::chrono::milliseconds longest_silence() const;
  void read_errors();
  void take_error_line(const LinePiece& piece);
  void leave_when_over();

  EventLoop& loop_;
  HostShare share_;
  std::chrono::milliseconds silence_;
  Events events_;
  std::string hvdrun_;
  std::string command_;  // "ssh" or "srun"; empty for this host
  AgentProcess agent_;
  std::unique_ptr<MessageLink> link_;
  std::unique_ptr<FdWatch> errors_;
  LineCutter error_lines_;
  std::string last_error_;
  Timer silence_timer_;
  Timer leave_timer_;
  SteadyClock::time_point heard_{};
  std::optional<Introduction> introduction_;
  std::string unread_;  // what was wrong with the agent's bytes, if that closed the link
  int64_t owed_ = 0;
  int wait_status_ = 0;
  bool link_open_ = false;
  bool running_ = false;   // the process that leads there has not been reaped
  bool ordered_ = false;   // it was told to start its ranks, or to end
  bool starting_ = false;  // it was told to start its ranks and has sent nothing since
  bool done_ = false;      // kDone has come
  bool lost_ = false;
  bool over_ = false;
};

}  // namespace rueda::core::launcher
