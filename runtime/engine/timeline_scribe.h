#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/mutex.h"
#include "runtime/diagnosis/timeline_writer.h"
#include "runtime/engine/task_thread.h"

namespace rueda::core {

/// Writes a timeline's file on a thread of its own, because a disk may block: that thread alone touches the writer.
/// `Timeline` owns the scribe and calls all of it under its mutex, except for `await_closed` and `end`. None of these
/// calls but the last two waits for the disk.
class TimelineScribe {
 public:
  /// One file and what is on its way there. The scribe's thread shares it, and may outlive the scribe if a disk holds
  /// it.
  struct File {
    std::unique_ptr<TimelineWriter> writer;  ///< the scribe's thread; null once closed, or after the disk failed
    std::atomic<size_t> queued{0};           ///< bytes on their way to that thread
    Mutex mutex;
    Condition changed;
    bool closed RUEDA_GUARDED_BY(mutex) = false;
    Status failure RUEDA_GUARDED_BY(mutex);
  };

  /// `rank` is this rank, for the log.
  explicit TimelineScribe(int rank) : rank_(rank) {}

  /// Begins a new file. Returns kSystem if it cannot be made.
  Status open(const std::string& path, const std::vector<TimelineWriter::Rank>& ranks);
  /// Queues records of `rank`; `shift` takes its clock to rank 0's. Returns false, and drops them, if the disk is so
  /// slow that too much is queued.
  bool write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift);
  /// Queues the end of the file, after all that is queued.
  std::shared_ptr<File> close();
  /// Blocks until the file is closed and returns how that went: ok, kSystem if the disk took no more, or kTimeout if it
  /// is not closed by the deadline.
  static Status await_closed(File& file, Deadline deadline);
  /// Bytes that wait in memory for the disk.
  size_t queued() const { return file_->queued.load(); }
  /// Ends the thread. If a disk holds it for longer than a moment it is left alone: it uses only the file.
  void end();

 private:
  const int rank_;
  std::shared_ptr<File> file_ = std::make_shared<File>();
  TaskThread task_thread_;
};

}  // namespace rueda::core
