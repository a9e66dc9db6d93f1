#pragma once
#include <functional>
#include <string>
#include <thread>

#include "runtime/base/status.h"

namespace rueda::core {

/// Starts a thread of the library's: the one way in which they are made. `what` completes the sentence "cannot start
/// the thread ...". Returns kSystem, with the limit that is in the way, if the system has no thread to give; `thread`
/// is then as before. An exception that leaves `body` ends the thread and not the process, and is logged as an error.
/// The caller joins or detaches the thread.
Status start_thread(std::thread& thread, const std::string& what, std::function<void()> body);

}  // namespace rueda::core
