// An exception that leaves the function of a std::thread ends the process, which is the user's. So every thread of the
// library starts here, inside a function that lets none out.
#include "runtime/base/thread.h"

#include <system_error>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/shortage.h"

namespace rueda::core {

Status start_thread(std::thread& thread, const std::string& what, std::function<void()> body) {
  const auto refused = [&](const std::string& reason) {
    return Status(Code::kSystem, "cannot start the thread " + what + ": " + reason);
  };
  try {
    thread = std::thread([what, body = std::move(body)] {
      try {
        body();
      } catch (const std::exception& error) {
        log(LogLevel::kError, "the thread {} has ended: {}", what, failure_of(error).sentence());
      }
    });
  } catch (const std::system_error&) {
    return refused(no_thread_reason());
  } catch (const std::exception& error) {
    return failure_of(error);
  }
  return {};
}

}  // namespace rueda::core
