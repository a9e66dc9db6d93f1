#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core {

/// A file that is one JSON array of events at every moment, whoever reads it and however its process ends.
///
///     [  event, event, ...   spaces ...   {"ph":"M",...}]
///                          ^ end_                        ^ capacity_
///
/// The last event and the bracket stand at the end of the file from the start, with spaces between, which JSON allows.
/// An event takes the place of spaces in one write inside one page, which no signal cuts in two. A file that is full is
/// copied into one of twice the size, which then takes its name. Owned by one thread.
class TimelineFile {
 public:
  /// Replaces what has this name. kSystem: it cannot be made.
  static Result<std::unique_ptr<TimelineFile>> create(const std::string& path);
  /// Cuts the spaces off; a failure leaves them, which is as well.
  ~TimelineFile();
  TimelineFile(const TimelineFile&) = delete;
  TimelineFile& operator=(const TimelineFile&) = delete;

  /// Events as TimelineJson writes them. kSystem: the file could not be written, and takes no more.
  Status append(std::string_view events);

 private:
  explicit TimelineFile(std::string path) : path_(std::move(path)) {}
  Status replace(int64_t capacity);
  Status write_page(std::string_view events);
  Status failed(const char* what) const;

  const std::string path_;
  UniqueFd file_;
  int64_t end_ = 0;
  int64_t capacity_ = 0;
};

}  // namespace rueda::core
