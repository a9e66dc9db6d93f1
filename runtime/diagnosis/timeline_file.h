#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// A file that is one JSON array of events at every moment, however its process ends. Only a reader during a write may
/// see that page half written, as with any file.
///
///     [  event, event, ...   spaces ...   {"ph":"M",...}]
///                          ^ end_                        ^ capacity_
///
/// The last event and the bracket stand at the end of the file from the start, with spaces between, which JSON allows.
/// An event overwrites spaces inside one page, which no signal cuts in two; a write may cover several pages, each of
/// whole events. A file that is full is copied into a larger one, which then takes its name. Owned by one
/// thread.
class TimelineFile {
 public:
  /// Size at first: room for some dozen steps of a large model before the file must be copied.
  static constexpr int64_t kFirstBytes = 4 << 20;
  /// Replaces the file of this name. `bytes` is a multiple of 4 KiB. Returns kSystem if the file cannot be made.
  static Result<std::unique_ptr<TimelineFile>> create(const std::string& path, int64_t bytes = kFirstBytes);
  /// Takes out the spaces, as far as they fill pages. If that fails they stay, which is harmless.
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

  /// Adds events as TimelineJson writes them. Returns kSystem if the file cannot be written; it then takes no more.
  Status append(std::string_view events);

 private:
  explicit TimelineFile(std::string path) : path_(std::move(path)) {}
  bool cut_pages_of_spaces();
  Status replace(int64_t capacity);
  Status write(std::string_view pages);
  Status failed(const char* what) const;

  const std::string path_;
  UniqueFd file_;
  int64_t end_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace rueda::core
