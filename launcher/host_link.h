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

/// One host of a job as hvdrun sees it: the process that leads there, the link to its agent, and whether both live.
/// Belongs to the loop's thread; events come from the loop, never from inside a call.
class HostLink {
 public:
  struct Events {
    std::function<void()> introduced;             ///< the agent is there; `introduction` is set
    std::function<void(const Message&)> message;  ///< what it says from then on
    std::function<void(std::string why)> lost;    ///< once: its ranks are, if not over. It may still tell of their ends
    std::function<void()> over;                   ///< once, and the last: nothing of this host is left here
    std::function<void(std::string_view)> said;   ///< a line that ssh wrote after the introduction
  };

  /// `silence`: for how long another host may say nothing; zero: for ever.
  HostLink(EventLoop& loop, HostShare share, std::chrono::milliseconds silence, Events events);
  HostLink(const HostLink&) = delete;
  HostLink& operator=(const HostLink&) = delete;

  /// Starts a guard here, or the command that leads to the other host, which has hvdrun at the path `hvdrun`. Once.
  Status start(const std::vector<std::string>& command, const std::string& hvdrun);
  /// Dropped once the link is closed.
  void send(const Message& message);
  /// Gives the host up: no answer is awaited, and what leads there is killed. `why` as for `lost`.
  void give_up(std::string why);
  /// To be called after SIGCHLD.
  void reap();
  /// Output of its ranks was taken; grants the agent as much again once `grant` is called.
  void owe(int64_t bytes) { owed_ += bytes; }
  void grant();

  const HostShare& share() const { return share_; }
  const std::string& name() const { return share_.host.name; }
  const std::optional<Introduction>& introduction() const { return introduction_; }
  /// Whether it answered what it was asked of late; true where it is not asked.
  bool heard_lately() const;
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
  void read_errors();
  void take_error_line(const LinePiece& piece);
  void leave_when_over();

  EventLoop& loop_;
  HostShare share_;
  std::chrono::milliseconds silence_;
  Events events_;
  std::string hvdrun_;
  std::string command_;  // "ssh"; empty: none
  AgentProcess agent_;
  std::unique_ptr<MessageLink> link_;
  std::unique_ptr<FdWatch> errors_;
  LineCutter error_lines_;
  std::string last_error_;
  Timer silence_timer_;
  Timer leave_timer_;
  SteadyClock::time_point heard_{};
  std::optional<Introduction> introduction_;
  std::string unread_;  // why the link closed, where the agent itself was to blame
  int64_t owed_ = 0;
  int wait_status_ = 0;
  bool link_open_ = false;
  bool running_ = false;   // the process that leads there
  bool ordered_ = false;   // to start its ranks, or to end
  bool starting_ = false;  // it was ordered to start its ranks, and has said nothing since
  bool done_ = false;      // the agent said so
  bool lost_ = false;
  bool over_ = false;
};

}  // namespace rueda::core::launcher
