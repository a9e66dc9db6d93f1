#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/line_cutter.h"
#include "launcher/outlet.h"
#include "runtime/base/status.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

enum class Timestamps { kOff, kOn };

/// What ranks print, as whole prefixed lines on our stdout and stderr and, where asked for, unchanged into a file for
/// each rank and stream. Belongs to the loop's thread.
class RankOutput {
 public:
  /// `progress` is called whenever something has left.
  RankOutput(EventLoop& loop, int ranks, Timestamps timestamps, std::function<void()> progress);

  /// Makes DIR/rank.N/stdout and stderr for all ranks. kSystem names the file or folder that could not be made.
  Status open_files(const std::string& directory);
  /// `stream`: 1 or 2. No bytes: the stream has ended, and what is left of it is a line. Says once that output is being
  /// lost, where it is.
  void take(int rank, int stream, std::string_view bytes);
  /// A line of hvdrun's own on stderr.
  void say(std::string_view line);

  /// The rank's last lines on stderr, oldest first.
  std::vector<std::string> last_errors(int rank) const;
  /// The most that waits in front of one file or terminal.
  size_t backlog() const;
  bool empty() const { return backlog() == 0; }
  /// The first that could not take all of its output, and why: "stdout: No space left on device". Empty: all has left.
  std::string lost() const;

 private:
  struct Stream {
    LineCutter cutter;
    UniqueFd fd;
    std::unique_ptr<Outlet> file;
  };
  Stream& stream(int rank, int stream) { return streams_[static_cast<size_t>(rank * 2 + stream - 1)]; }
  void print(int rank, int stream, const LinePiece& piece);
  std::string now() const;
  void tell_of_loss();

  EventLoop& loop_;
  Timestamps timestamps_;
  std::function<void()> progress_;
  Outlet stdout_;
  Outlet stderr_;
  std::vector<Stream> streams_;
  std::vector<std::deque<std::string>> last_errors_;
  bool told_of_loss_ = false;
};

}  // namespace rueda::core::launcher
