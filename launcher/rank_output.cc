// Prints what ranks print. Lines of different ranks never mix, because a line is printed only when it is whole. The
// last lines on stderr are kept, so that the report at the end can show why the first rank failed even if later ranks
// printed hundreds of lines. A full disk or a closed pipe does not end the job: training goes on, and hvdrun exits with
// a code.

#include "launcher/rank_output.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "runtime/base/output_file.h"

namespace rueda::core::launcher {
namespace {

constexpr size_t kLastErrors = 10;         // lines of each rank
constexpr size_t kRememberedBytes = 1000;  // of one line

}  // namespace

RankOutput::RankOutput(EventLoop& loop, int ranks, Timestamps timestamps, std::function<void()> progress)
    : loop_(loop),
      timestamps_(timestamps),
      progress_(std::move(progress)),
      stdout_(loop, STDOUT_FILENO, progress_),
      stderr_(loop, STDERR_FILENO, progress_) {
  for (; made_ < static_cast<size_t>(ranks) * 2; ++made_) streams_[made_];
}

Status RankOutput::open_files(const std::string& directory) {
  directory_ = directory;
  for (size_t i = 0; i < made_; ++i) RUEDA_RETURN_IF_ERROR(open_file(i));
  return {};
}

Status RankOutput::open_file(size_t index) {
  const auto folder = std::filesystem::path(directory_) / fmt::format("rank.{}", index / 2);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return {Code::kSystem, fmt::format("cannot make folder {}: {}", folder.string(), error.message())};
  const auto path = folder / (index % 2 == 0 ? "stdout" : "stderr");
  RUEDA_RETURN_IF_ERROR(check_link("a rank's output", folder.string()));
  auto file = open_output("a rank's output", path.string());
  if (!file.ok()) return file.status();
  Stream& one = streams_[index];
  one.fd = std::move(file).value();
  one.file = std::make_unique<Outlet>(loop_, one.fd.get(), [this, index, &one] {
    if (one.ended) loop_.post([this, index] { close(index); });  // not inside the outlet's own call
    progress_();
  });
  return {};
}

/// Lets go of a stream that has ended, once its file has all that was written: in an elastic job ranks come and go. A
/// file that has failed stays, because `lost` tells of it.
void RankOutput::close(size_t index) {
  const auto found = streams_.find(index);
  if (found == streams_.end() || !found->second.ended) return;
  const auto& file = found->second.file;
  if (!file || (file->pending() == 0 && file->error() == 0)) streams_.erase(found);
}

Status RankOutput::grow(int ranks) {
  for (; made_ < static_cast<size_t>(ranks) * 2; ++made_) {
    streams_[made_];
    if (!directory_.empty()) RUEDA_RETURN_IF_ERROR(open_file(made_));
  }
  return {};
}

void RankOutput::take(int rank, int number, std::string_view bytes) {
  const auto found = streams_.find(index_of(rank, number));
  if (found == streams_.end()) return;  // it has ended, and its agent sends no more
  Stream& from = found->second;
  // The file gets the bytes as they are: tools may want a rank's own progress bars or binary output.
  if (from.file && !bytes.empty()) from.file->write(bytes);
  const auto print_piece = [&](const LinePiece& piece) { print(rank, number, piece); };
  if (bytes.empty()) {
    from.cutter.finish(print_piece);
    from.ended = true;
    close(found->first);
  } else {
    from.cutter.feed(bytes, print_piece);
  }
  tell_of_loss();
}

void RankOutput::tell_of_loss() {
  const std::string what = told_of_loss_ ? "" : lost();
  if (what.empty()) return;
  told_of_loss_ = true;
  say(fmt::format("output is being lost: {}; the job goes on", what));
}

void RankOutput::print(int rank, int number, const LinePiece& piece) {
  const bool errors = number == STDERR_FILENO;
  (errors ? stderr_ : stdout_).write(prefixed(piece, rank, errors ? "stderr" : "stdout", now()));
  if (!errors) return;
  auto& last = last_errors_[rank];
  last.emplace_back(piece.text.substr(0, kRememberedBytes));
  if (last.size() > kLastErrors) last.pop_front();
}

void RankOutput::say(std::string_view line) { stderr_.write(fmt::format("hvdrun: {}\n", line)); }

std::string RankOutput::now() const {
  if (timestamps_ == Timestamps::kOff) return {};
  const auto time = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count() % 1000;
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}", fmt::localtime(std::chrono::system_clock::to_time_t(time)), ms);
}

void RankOutput::close_all() {
  for (int rank = 0; rank < static_cast<int>(made_ / 2); ++rank) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) take(rank, stream, {});
  }
}

void RankOutput::repeat_last_errors(int rank) {
  const auto last = last_errors_.find(rank);
  if (last == last_errors_.end()) return;
  say("its last lines on stderr:");
  for (const auto& line : last->second) say(fmt::format("  {}", line));
}

std::string RankOutput::lost() const {
  // stdout and stderr first: they matter even if every file fails too.
  const auto because = [](const Outlet& outlet) { return std::string(std::strerror(outlet.error())); };
  if (stdout_.error() != 0) return "stdout: " + because(stdout_);
  if (stderr_.error() != 0) return "stderr: " + because(stderr_);
  if (directory_.empty()) return {};
  for (const auto& [index, stream] : streams_) {
    if (stream.file == nullptr || stream.file->error() == 0) continue;
    return fmt::format("rank.{}/{}: {}", index / 2, index % 2 == 0 ? "stdout" : "stderr", because(*stream.file));
  }
  return {};
}

size_t RankOutput::backlog() const {
  size_t most = std::max(stdout_.pending(), stderr_.pending());
  for (const auto& [index, stream] : streams_) most = std::max(most, stream.file ? stream.file->pending() : 0);
  return most;
}

}  // namespace rueda::core::launcher
