// Lines wait in memory until the task thread writes them: trials are told inside turns, which may not block.
//
//   add ─▶ waiting ─▶ one task at a time ─▶ write ─▶ the file
//   finish ──────────────────────────────────┘        what came after the last task
#include "runtime/engine/tune_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runtime/base/knob_values.h"
#include "runtime/base/log.h"
#include "runtime/base/output_file.h"

namespace rueda::core {
namespace {

/// A disk that takes nothing must not fill the memory.
constexpr size_t kMostWaiting = 1 << 20;

}  // namespace

std::string csv_header() {
  return "seconds,set,operation,type,codec,ranks,hosts,distance,class_bytes,short_tensors,algorithm,chunk_bytes,stores,"
         "waits,lane_slots,sockets,bytes,microseconds,chosen";
}

std::string csv_line(const TrialReport& report, std::chrono::nanoseconds since_start, const char* algorithm,
                     uint64_t slot_bytes) {
  const TuneClass& batches = report.batches;
  return fmt::format("{:.6f},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.1f},{}",
                     std::chrono::duration<double>(since_start).count(), report.set, name_of(batches.kind),
                     name_of(batches.dtype), name_of(batches.codec), batches.ranks, batches.hosts,
                     name_of(batches.distance), least_bytes(batches.size), batches.short_tensors ? 1 : 0, algorithm,
                     slot_bytes >> report.variant.chunk_shift, print_stores(report.variant.stores),
                     print_waits(report.variant.sleeps ? Waits::kSleep : Waits::kSpin),
                     print_lane_slots(report.variant.lane_slots), print_sockets(report.variant.sockets), report.bytes,
                     std::chrono::duration<double, std::micro>(report.took).count(), static_cast<int>(report.role));
}

TuneLog::TuneLog(const std::string& path, std::function<const char*(uint8_t)> name, uint64_t slot_bytes,
                 TaskThread& tasks)
    : name_(std::move(name)), slot_bytes_(slot_bytes), tasks_(tasks) {
  auto opened = open_output("the log of trials", path);
  if (!opened.ok()) {
    log(LogLevel::kWarning, "RUEDA_AUTOTUNE_LOG: {}", opened.status().sentence());
    return;
  }
  file_ = std::make_shared<File>();
  file_->path = path;
  file_->descriptor = std::move(opened).value();
  const MutexLock lock(file_->mutex);
  file_->waiting = csv_header() + "\n";
}

void TuneLog::add(const TrialReport& report) {
  if (file_ == nullptr) return;
  const std::string line = csv_line(report, report.at - since_, name_(report.variant.algorithm), slot_bytes_) + "\n";
  const MutexLock lock(file_->mutex);
  if (file_->failed || file_->waiting.size() + line.size() > kMostWaiting) return;
  file_->waiting += line;
  if (std::exchange(file_->posted, true)) return;
  // Refused for lack of a thread, or because the engine ends: `finish` writes it.
  static_cast<void>(tasks_.post([file = file_] { write(*file); }));
}

void TuneLog::finish() {
  if (file_ != nullptr) write(*file_);
}

void TuneLog::write(File& file) {
  std::string text;
  {
    const MutexLock lock(file.mutex);
    file.posted = false;
    if (file.failed) return;
    text.swap(file.waiting);
  }
  if (write_all(file.descriptor.get(), text)) return;
  log(LogLevel::kWarning, "the log of trials {} cannot be written: {}", file.path, std::strerror(errno));
  const MutexLock lock(file.mutex);
  file.failed = true;
}

}  // namespace rueda::core
