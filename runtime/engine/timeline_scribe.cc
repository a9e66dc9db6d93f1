// The scribe's thread runs what is posted in order: open, pieces, close. Each job holds the file by a shared pointer,
// so a new recording can begin while an old file is still on its way to a slow disk.
#include "runtime/engine/timeline_scribe.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>

#include "runtime/base/log.h"
#include "runtime/engine/timeline_recorder.h"

namespace rueda::core {
namespace {

constexpr int kNiceness = 19;
/// What a disk that holds the thread has to let it go.
constexpr std::chrono::milliseconds kLetsGo{100};

}  // namespace

Status TimelineScribe::open(const std::string& path, const std::vector<TimelineWriter::Rank>& ranks) {
  Result<std::unique_ptr<TimelineWriter>> writer = TimelineWriter::open(path, ranks);
  if (!writer.ok()) return writer.status();
  file_ = std::make_shared<File>();
  file_->writer = std::move(writer).value();  // before any job of the thread knows the file
  return task_thread_.post([] {
    // The file is in no hurry, and the ranks' own threads may have no core to spare.
    ::pthread_setname_np(::pthread_self(), "rueda-timeline");
    static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNiceness));
  });
}

/// `queued` counts bytes that left the recorder and are not written yet: memory that a slow disk costs.
bool TimelineScribe::write(int rank, std::vector<std::byte> records, std::chrono::nanoseconds shift) {
  if (file_->queued.load() > TimelineRecorder::kMostBytes) return false;
  file_->queued += records.size();
  auto add = [file = file_, own = rank_, rank, shift, records = std::move(records)] {
    file->queued -= records.size();
    if (file->writer == nullptr) return;
    const Status written = file->writer->add(rank, records, shift);
    if (written.ok()) return;
    log(LogLevel::kWarning, "rank {}: {}", own, written.sentence());
    // Records that do not parse concern one piece. A disk that takes no more ends the file; the rest is dropped.
    if (written.code() == Code::kSystem) file->writer.reset();
    MutexLock failing(file->mutex);
    file->failure = written;
  };
  return task_thread_.post(std::move(add)).ok();  // it has the thread since `open`
}

std::shared_ptr<TimelineScribe::File> TimelineScribe::close() {
  static_cast<void>(task_thread_.post([file = file_] {  // likewise
    file->writer.reset();
    MutexLock closing(file->mutex);
    file->closed = true;
    file->changed.notify_all();
  }));
  return file_;
}

/// The failure is handed out once: it is the caller's to report.
Status TimelineScribe::await_closed(File& file, Deadline deadline) {
  MutexLock lock(file.mutex);
  while (!file.closed && !deadline.passed()) {
    file.changed.wait_for(file.mutex, deadline.left(std::chrono::seconds(1)));
  }
  return file.closed ? std::exchange(file.failure, {}) : Status(Code::kTimeout, "");
}

void TimelineScribe::end() { static_cast<void>(task_thread_.stop(Deadline::after(kLetsGo))); }

}  // namespace rueda::core
