// The log of the process: one line at a time to a sink of the program, or to stderr. The level is an atomic, so that a
// line that is not wanted costs one load; everything else is under one mutex, so that lines never mix.
#include "runtime/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "runtime/base/mutex.h"
#include "runtime/base/printable.h"

namespace rueda::core {
namespace {

constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn,  spdlog::level::err,   spdlog::level::critical};

/// One for the process, like stderr. Made at its first use and never destroyed, so that threads may log while the
/// process exits.
struct ProcessLog {
  std::atomic<int> level{static_cast<int>(LogLevel::kWarning)};
  Mutex mutex;
  LogSink sink RUEDA_GUARDED_BY(mutex);
  spdlog::logger to_stderr{"rueda", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  ProcessLog() {
    to_stderr.set_level(spdlog::level::trace);
    set_pattern(false);
  }
  void set_pattern(bool hide_time) { to_stderr.set_pattern(hide_time ? "rueda %l: %v" : "%H:%M:%S.%e rueda %l: %v"); }
};

ProcessLog& process_log() {
  static auto* log = new ProcessLog;
  return *log;
}

}  // namespace

void set_log_sink(LogSink sink) {
  ProcessLog& log = process_log();
  MutexLock lock(log.mutex);
  log.sink = std::move(sink);
}

void set_log_level(LogLevel level, bool hide_time) {
  ProcessLog& log = process_log();
  MutexLock lock(log.mutex);
  log.level.store(static_cast<int>(level));
  log.set_pattern(hide_time);
}

bool log_enabled(LogLevel level) {
  return static_cast<int>(level) >= process_log().level.load(std::memory_order_relaxed);
}

void log_line(LogLevel level, const std::string& line) {
  ProcessLog& log = process_log();
  MutexLock lock(log.mutex);
  try {
    if (log.sink) return log.sink(level, line);
  } catch (...) {  // from the program's sink, on any thread of the library: the line goes to stderr instead
  }
  // Names of tensors and sets come from the program, and stderr may be a terminal: control characters are replaced, but
  // for the newlines and tabs of tables.
  log.to_stderr.log(kLevels[static_cast<int>(level)], "{}", printable(line, "\n\t"));
}

}  // namespace rueda::core
