#pragma once
#include <spdlog/fmt/fmt.h>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace rueda::core {

enum class LogLevel : int { kTrace = 0, kDebug, kInfo, kWarning, kError, kFatal, kOff };

/// Receives each finished line (no newline) at or above the level. Called on any thread, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view line)>;

/// Sends the lines of this process to `sink`, or to stderr if it is empty, as at first. Any thread.
void set_log_sink(LogSink sink);
/// Drops lines below `level`; each costs one load. `hide_time` leaves the time out of lines on stderr.
void set_log_level(LogLevel level, bool hide_time);
bool log_enabled(LogLevel level);
/// Writes one line; use the template below.
void log_line(LogLevel level, const std::string& line);

/// Formats and writes a line. Never throws: a line for which there is no memory is lost.
template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    if (!log_enabled(level)) return;  // the first call makes the log
    log_line(level, fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::exception&) {
  }
}

}  // namespace rueda::core
