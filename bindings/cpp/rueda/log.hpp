#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "rueda.h"

namespace rueda {

enum class LogLevel : int32_t {
  kTrace = RUEDA_LOG_TRACE,
  kDebug = RUEDA_LOG_DEBUG,
  kInfo = RUEDA_LOG_INFO,
  kWarning = RUEDA_LOG_WARNING,
  kError = RUEDA_LOG_ERROR,
  kFatal = RUEDA_LOG_FATAL
};

/// Receives a log line without a newline at its end; the text is valid during the call. Called on any thread, one line
/// at a time. It must not call the library or `set_log_callback`. If it throws, the exception is caught and the line
/// goes to stderr.
using LogCallback = std::function<void(LogLevel level, std::string_view line)>;

namespace detail {

/// The process's log callback. Never destroyed: threads of the library may log until the process is gone.
class Log {
 public:
  static Log& of_process() {
    static Log& log = *new Log;
    return log;
  }

  /// The library calls the callback under a lock that the C function takes too: once that function has returned, the
  /// previous callback no longer runs.
  void set(LogCallback callback) {
    auto next = callback ? std::make_unique<const LogCallback>(std::move(callback)) : nullptr;
    const std::lock_guard lock(setting_);
    rueda_set_log_callback(next != nullptr ? &Log::take : nullptr, const_cast<LogCallback*>(next.get()));
    callback_.swap(next);
  }

 private:
  static void take(void* callback, int32_t level, const char* line) {
    try {
      (*static_cast<const LogCallback*>(callback))(static_cast<LogLevel>(level), line);
    } catch (...) {
      static_cast<void>(std::fprintf(stderr, "%s\n", line));
    }
  }

  std::mutex setting_;
  std::unique_ptr<const LogCallback> callback_;  ///< what the library calls; guarded by setting_
};

}  // namespace detail

/// Hands every log line at or above RUEDA_LOG_LEVEL to `callback` instead of stderr, for the process: until another one
/// replaces it; an empty one: stderr again. What `callback` refers to is to live as long. When this returns the one
/// before runs no more and has been destroyed. Any thread, except inside a callback of the log.
inline void set_log_callback(LogCallback callback) { detail::Log::of_process().set(std::move(callback)); }

}  // namespace rueda
