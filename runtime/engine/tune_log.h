#pragma once
#include <functional>
#include <memory>
#include <string>

#include "runtime/agreement/tuner.h"
#include "runtime/base/mutex.h"
#include "runtime/base/unique_fd.h"
#include "runtime/engine/task_thread.h"

namespace rueda::core {

/// The CSV file of trials, for people: a line for each trial and each choice. The thread that tells of one never waits
/// for a disk; a task thread writes. The first failed write is a warning, and the last.
class TuneLog {
 public:
  /// `name` gives algorithms their names, `tasks` runs the writes; both outlive it. If the file cannot be opened, it
  /// warns and keeps nothing. `slot_bytes`: as in BatchShape.
  TuneLog(const std::string& path, std::function<const char*(uint8_t)> name, uint64_t slot_bytes, TaskThread& tasks);
  void add(const TrialReport& report);
  /// Writes what is left, on the calling thread. After the task thread has stopped.
  void finish();

 private:
  struct File {
    std::string path;
    UniqueFd descriptor;
    Mutex mutex;
    std::string waiting RUEDA_GUARDED_BY(mutex);
    bool posted RUEDA_GUARDED_BY(mutex) = false;
    bool failed RUEDA_GUARDED_BY(mutex) = false;
  };
  static void write(File& file);

  std::function<const char*(uint8_t)> name_;
  const uint64_t slot_bytes_;
  TaskThread& tasks_;
  const SteadyClock::time_point since_ = SteadyClock::now();
  std::shared_ptr<File> file_;  ///< null if there is none
};

/// A line of the file, without its end; the header names the columns. Pure.
std::string csv_header();
std::string csv_line(const TrialReport& report, std::chrono::nanoseconds since_start, const char* algorithm,
                     uint64_t slot_bytes);

}  // namespace rueda::core
