#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/abort.h"
#include "runtime/net/channel.h"
#include "runtime/net/control_link.h"
#include "runtime/net/path_watch.h"

namespace rueda::core {

/// The sockets of one rank in one epoch: its listener, the TLS control connections to ranks of other hosts, the
/// authenticated data connections. Its event loop runs on the coordinator thread, inside `poll`. The engine owns it.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Returns a control link to a rank that shares no memory with this one; null before `form_epoch` has connected it.
  virtual std::unique_ptr<ControlLink> control_link(int rank) = 0;
  /// Returns the channels of one lane. `abort` outlives them. They connect only while the coordinator thread runs
  /// `poll`.
  virtual std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) = 0;
  /// Wakes all threads that wait in a channel set. The caller has raised `abort` before.
  virtual void wake_all() = 0;
  /// Handles what is ready; if nothing is, sleeps until something is, at most for `limit`. The coordinator thread
  /// sleeps nowhere else, except for naps of half a millisecond in jobs whose control frames need no transport.
  virtual void poll(std::chrono::nanoseconds limit) = 0;
  /// Adds a descriptor: while it is readable, `poll` wakes and calls `on_ready`, again and again. So `on_ready` drains
  /// it, or unwatches it if nothing can be drained (a pidfd, an end of file). Coordinator thread. The descriptor stays
  /// the caller's; the caller unwatches it before it closes it.
  virtual void watch(int fd, std::function<void()> on_ready) = 0;
  /// Returns why this rank's own process can take part no longer: it has had no descriptor for a peer's connection for
  /// half a second. Ok as long as there is no such reason. Coordinator thread.
  virtual Status fault() const = 0;
  /// Returns the ranks of other hosts that have left a data connection unanswered for `limit`. Call it about once a
  /// second on the coordinator thread.
  virtual std::vector<SilentPath> silent_paths(std::chrono::nanoseconds limit) = 0;
  /// Ends a watch, also from inside its `on_ready`. Does nothing if the descriptor is not watched.
  virtual void unwatch(int fd) = 0;
};

}  // namespace rueda::core
