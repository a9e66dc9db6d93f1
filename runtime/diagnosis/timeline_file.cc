// A file that is a complete JSON array after every write, so that a job that is killed leaves a readable timeline. The
// closing event and bracket stand at the end of the file from the start, with spaces in between (timeline_file.h has
// the picture). Events overwrite spaces, and never across a page, because a kill can cut a write between pages only.
//
//   append ─▶ room before the tail? ─yes─▶ pwrite over the spaces
//                  └ no ─▶ replace: copy into a larger file, rename it over this one
#include "runtime/diagnosis/timeline_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/base/output_file.h"
#include "runtime/diagnosis/replaceable.h"
#include "runtime/diagnosis/timeline_json.h"

namespace rueda::core {
namespace {

constexpr int64_t kFilePage = 4096;
/// Growing copies the file, so a short file becomes four times as long: few copies. A very long one grows by 1 GiB at
/// most, so that it does not take twice its room on the disk.
constexpr int64_t kQuickGrowth = int64_t{64} << 20;
constexpr int64_t kMostGrowth = int64_t{1} << 30;
constexpr size_t kMostWrite = 1 << 20;
constexpr std::string_view kHead = "[\n";
constexpr std::string_view kTail = "{\"ph\":\"M\",\"pid\":0,\"name\":\"rueda_timeline\",\"args\":{\"version\":2}}]\n";
static_assert(TimelineJson::kMaxEventBytes < kFilePage);

int64_t growth_of(int64_t capacity) {
  return std::max(std::min(3 * capacity, kQuickGrowth), std::min(capacity, kMostGrowth));
}

/// pwrite, so that no file position has to be kept in step with `end_`.
bool write_all(int file, std::string_view text, int64_t at) {
  while (!text.empty()) {
    const ssize_t wrote = ::pwrite(file, text.data(), text.size(), at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<size_t>(wrote));
    at += wrote;
  }
  return true;
}

bool copy(int from, int to, int64_t bytes) {
  std::string piece(static_cast<size_t>(std::min<int64_t>(bytes, 1 << 20)), ' ');
  for (int64_t at = 0; at < bytes;) {
    const ssize_t got =
        ::pread(from, piece.data(), static_cast<size_t>(std::min<int64_t>(bytes - at, std::ssize(piece))), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || !write_all(to, std::string_view(piece).substr(0, static_cast<size_t>(got)), at)) return false;
    at += got;
  }
  return true;
}

/// Writes real spaces: a hole would read as zeros, which are no JSON.
bool fill_with_spaces(int file, int64_t begin, int64_t end) {
  const std::string spaces(static_cast<size_t>(std::clamp<int64_t>(end - begin, 0, 1 << 20)), ' ');
  for (int64_t at = begin; at < end; at += std::ssize(spaces)) {
    const auto length = static_cast<size_t>(std::min<int64_t>(end - at, std::ssize(spaces)));
    if (!write_all(file, std::string_view(spaces).substr(0, length), at)) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<TimelineFile>> TimelineFile::create(const std::string& path, int64_t bytes) {
  const Result<std::string> target = replaceable("timeline", path);
  if (!target.ok()) return target.status();
  std::unique_ptr<TimelineFile> file(new TimelineFile(target.value()));
  RUEDA_RETURN_IF_ERROR(file->replace(bytes));
  return file;
}

TimelineFile::~TimelineFile() {
  if (file_.valid() && !cut_pages_of_spaces()) static_cast<void>(replace(end_ + std::ssize(kTail)));
}

/// Takes out the pages that hold nothing but spaces, in one call and without a copy. Returns false if the file system
/// cannot do that: the destructor then copies the file once more, at its true length.
bool TimelineFile::cut_pages_of_spaces() {
  const int64_t begin = (end_ + kFilePage - 1) / kFilePage * kFilePage;
  const int64_t end = (capacity_ - std::ssize(kTail)) / kFilePage * kFilePage;
  if (begin >= end) return true;
  return ::fallocate(file_.get(), FALLOC_FL_COLLAPSE_RANGE, begin, end - begin) == 0;
}

Status TimelineFile::failed(const char* what) const {
  return {Code::kSystem, fmt::format("the timeline {} cannot be {}: {}", path_, what, std::strerror(errno))};
}

/// Makes a file of this size with the events so far, and renames it over the old one.
Status TimelineFile::replace(int64_t capacity) {
  const std::string part = path_ + ".part";
  Result<UniqueFd> made = make_output("the timeline", part);
  if (!made.ok()) return made.status();
  UniqueFd next = std::move(made).value();
  const bool fresh = !file_.valid();
  const int64_t end = fresh ? std::ssize(kHead) : end_;
  const int64_t tail = capacity - std::ssize(kTail);
  const bool written = (fresh ? write_all(next.get(), kHead, 0) : copy(file_.get(), next.get(), end)) &&
                       fill_with_spaces(next.get(), end, tail) && write_all(next.get(), kTail, tail);
  if (!written || ::rename(part.c_str(), path_.c_str()) != 0) {
    Status status = failed("written");
    ::unlink(part.c_str());
    return status;
  }
  file_ = std::move(next);
  end_ = end;
  capacity_ = capacity;
  return {};
}

Status TimelineFile::append(std::string_view events) {
  std::string pages;  // to be written at `end_`: whole events, and spaces up to the next page if one does not fit
  while (!events.empty()) {
    if (!file_.valid()) return failed("written");
    const int64_t at = end_ + std::ssize(pages);
    const int64_t room_in_page = kFilePage - at % kFilePage;
    // The longest run of whole events that fits into this page.
    size_t length = std::min(events.size(), static_cast<size_t>(room_in_page));
    const size_t newline = events.substr(0, length).rfind('\n');
    length = newline == std::string_view::npos ? 0 : newline + 1;
    const int64_t next = length == 0 ? at + room_in_page : at;
    // No event is longer than a page, so this one is damaged. It is dropped rather than the file.
    if (length == 0 && room_in_page == kFilePage) {
      const size_t end = events.find('\n');
      events.remove_prefix(end == std::string_view::npos ? events.size() : end + 1);
      continue;
    }
    // Whether an event of any length still fits before the tail, on whose page events may lie too.
    if (next + static_cast<int64_t>(std::max<size_t>(length, TimelineJson::kMaxEventBytes)) >
        capacity_ - std::ssize(kTail)) {
      RUEDA_RETURN_IF_ERROR(write(std::exchange(pages, {})));
      if (Status grown = replace(capacity_ + growth_of(capacity_)); !grown.ok()) {
        file_.reset();
        return grown;
      }
      continue;
    }
    if (pages.size() >= kMostWrite) {
      RUEDA_RETURN_IF_ERROR(write(std::exchange(pages, {})));
      continue;
    }
    pages.append(static_cast<size_t>(next - at), ' ');
    pages.append(events.substr(0, length));
    events.remove_prefix(length);
  }
  return write(pages);
}

Status TimelineFile::write(std::string_view pages) {
  if (write_all(file_.get(), pages, end_)) {
    end_ += std::ssize(pages);
    return {};
  }
  Status status = failed("written");
  file_.reset();
  return status;
}

}  // namespace rueda::core
