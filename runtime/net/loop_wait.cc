// Blocks in an event loop until a condition holds. The abort comes before the condition: after the end of an epoch a
// wait that happens to be satisfied must not let its lane go on. The condition comes before the deadline: what has
// happened by then counts.
#include "runtime/net/loop_wait.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"

namespace rueda::core {

Status LoopWait::until(const std::function<bool()>& ready) const {
  for (;;) {
    if (abort != nullptr && abort->raised()) return abort->why();
    if (ready()) return {};
    if (deadline.passed()) return Status(Code::kTimeout, "deadline passed");
    io.run_one_for(deadline.left(std::chrono::seconds(1)));
  }
}

void run_loop(boost::asio::io_context& io, const char* what) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& error) {
      log(LogLevel::kError, "{}: {}", what, failure_of(error).sentence());
    }
  }
}

void stop_loop(boost::asio::io_context& io, std::function<void()> last) noexcept {
  try {
    boost::asio::post(io, [&io, last = std::move(last)] {
      if (last) last();
      io.stop();
    });
  } catch (const std::exception&) {
    io.stop();
  }
}

}  // namespace rueda::core
