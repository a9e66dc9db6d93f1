#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "launcher/event_loop.h"
#include "launcher/line_cutter.h"
#include "launcher/outlet.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

enum class Timestamps { kOff, kOn };

/// Prints the output of all ranks: whole lines with a prefix on our stdout and stderr, and if files are wanted,
/// unchanged bytes into one file for each rank and stream. Belongs to the loop's thread.
class RankOutput {
 public:
  /// Calls `progress` after each write to stdout, stderr or a file.
  RankOutput(EventLoop& loop, int ranks, Timestamps timestamps, std::function<void()> progress);

  /// Makes DIR/rank.N/stdout and DIR/rank.N/stderr for all ranks. Returns kSystem, naming the file or folder that could
  /// not be made.
  Status open_files(const std::string& directory);
  /// Makes room for ranks below `ranks`, with files as above if they were opened. In an elastic job a worker's number
  /// stands in for the rank.
  Status grow(int ranks);
  /// Takes bytes of stdout (`stream` 1) or stderr (2). No bytes mean that the stream has ended, and an incomplete line
  /// is printed. If output is lost, says so once on stderr.
  void take(int rank, int stream, std::string_view bytes);
  /// Forgets the last lines on stderr of a rank that has ended.
  void forget_errors(int rank) { last_errors_.erase(rank); }
  /// Prints a line of hvdrun's own on stderr, after `hvdrun: `.
  void say(std::string_view line);

  /// Ends all streams: prints incomplete lines.
  void close_all();
  /// Says the rank's last ten lines on stderr again, oldest first.
  void repeat_last_errors(int rank);
  /// Returns the largest number of bytes that wait for one file or terminal.
  size_t backlog() const;
  bool empty() const { return backlog() == 0; }
  /// Returns the first output that failed and why, as in "stdout: No space left on device"; empty if none failed.
  std::string lost() const;

 private:
  struct Stream {
    LineCutter cutter;
    UniqueFd fd;
    std::unique_ptr<Outlet> file;
    bool ended = false;
  };
  static size_t index_of(int rank, int stream) { return static_cast<size_t>(rank * 2 + stream - 1); }
  Status open_file(size_t index);
  void close(size_t index);
  void print(int rank, int stream, const LinePiece& piece);
  std::string now() const;
  void tell_of_loss();

  EventLoop& loop_;
  Timestamps timestamps_;
  std::function<void()> progress_;
  Outlet stdout_;
  Outlet stderr_;
  std::string directory_;             // of the files; empty if none are wanted
  std::map<size_t, Stream> streams_;  // those that have not ended, and files that have lost output
  size_t made_ = 0;                   // streams that there were so far
  std::map<int, std::deque<std::string>> last_errors_;
  bool told_of_loss_ = false;
};

}  // namespace rueda::core::launcher
