#pragma once
#include <functional>

#include "runtime/base/abort.h"
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

namespace boost::asio {
class io_context;
}

namespace rueda::core {

/// How the thread that owns an event loop blocks in it: one place for deadline and abort. The loop's other handlers run
/// meanwhile. A value on the stack of that thread.
struct LoopWait {
  boost::asio::io_context& io;  ///< kept from running dry by a work guard
  const Abort* abort;           ///< null: none
  Deadline deadline;

  /// Runs the loop until `ready()`, which is asked after every handler. The abort reason as soon as the loop is woken
  /// after it was raised; kTimeout at the deadline.
  Status until(const std::function<bool()>& ready) const;
  /// The same wait with an earlier end.
  LoopWait within(std::chrono::nanoseconds time) const { return {io, abort, deadline.earlier(Deadline::after(time))}; }
};

}  // namespace rueda::core
