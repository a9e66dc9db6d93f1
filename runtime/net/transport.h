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
/// authenticated data connections. Its own event loop runs on the coordinator thread: `poll`.
class Transport {
 public:
  virtual ~Transport() = default;
  /// A control link over TLS to a rank with which no memory is shared; null before `form_epoch` has connected it.
  virtual std::unique_ptr<ControlLink> control_link(int rank) = 0;
  /// Channels for one lane. `abort` outlives them. Dials and hand-overs happen between lane thread and `poll`.
  virtual std::unique_ptr<ChannelSet> channel_set(int lane, const Abort& abort) = 0;
  /// Wakes all threads that wait in a channel set, after `abort` was raised.
  virtual void wake_all() = 0;
  /// Runs the loop: handles what is ready, else sleeps until something is, or `wake_fd` is readable, at most `limit`.
  /// The coordinator thread's only sleep.
  virtual void poll(std::chrono::nanoseconds limit) = 0;
  /// Adds a descriptor whose readability wakes `poll` and calls `on_ready` on the coordinator thread, again and again
  /// while it stays readable: `on_ready` drains it or, where nothing can be drained (a pidfd, an end of file),
  /// unwatches it. Coordinator thread. The descriptor stays the caller's, who unwatches it before closing it.
  virtual void watch(int fd, std::function<void()> on_ready) = 0;
  /// Ranks of other hosts over whose data connections nothing has been answered for `limit`. To be asked about once a
  /// second, on the coordinator thread.
  virtual std::vector<SilentPath> silent_paths(std::chrono::nanoseconds limit) = 0;
  /// Ends a watch; also from inside its `on_ready`. Nothing happens for a descriptor that is not watched.
  virtual void unwatch(int fd) = 0;
};

}  // namespace rueda::core
