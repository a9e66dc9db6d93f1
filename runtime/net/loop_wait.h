#pragma once
#include <functional>

#include "runtime/base/abort.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace boost::asio {
class io_context;
}

namespace rueda::core {

/// How the thread that owns an event loop blocks in it, with deadline and abort in one struct. The loop's other
/// handlers run meanwhile. A value on the stack of that thread.
struct LoopWait {
  boost::asio::io_context& io;  ///< its owner holds a work guard, or the wait would spin once the loop is empty
  const Abort* abort;           ///< null if nothing but the deadline ends the wait
  Deadline deadline;

  /// Runs the loop until `ready()`, and asks after every handler. Returns the abort reason once the abort is raised and
  /// the loop is woken, kTimeout at the deadline.
  Status until(const std::function<bool()>& ready) const;
  /// The same wait with an earlier end.
  LoopWait within(std::chrono::nanoseconds time) const { return {io, abort, deadline.earlier(Deadline::after(time))}; }
};

/// Runs the loop on the calling thread until it is stopped. Logs what a handler throws, with `what` the loop is for,
/// and goes on: the others that the loop serves are sound.
void run_loop(boost::asio::io_context& io, const char* what);

/// Stops the loop that another thread runs with `run_loop`, behind all that was posted before, and calls `last` there
/// first. Without memory to post that it stops the loop at once, and `last` is not called. Any thread.
void stop_loop(boost::asio::io_context& io, std::function<void()> last = {}) noexcept;

}  // namespace rueda::core
