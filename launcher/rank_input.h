#pragma once
#include <functional>
#include <string>

#include "launcher/event_loop.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// The agent's side of a rank's stdin: writes one piece at a time into its pipe. Belongs to the loop's thread.
class RankInput {
 public:
  enum class Outcome { kTaken, kClosed };

  /// `fd` is our end of the pipe, non-blocking. Calls `done` once for each piece.
  RankInput(EventLoop& loop, UniqueFd fd, std::function<void(Outcome)> done);
  /// Writes the next piece, once the one before is done. An empty piece closes the pipe and has no outcome.
  void write(std::string bytes);

 private:
  void push();

  UniqueFd fd_;
  FdWatch writable_;
  std::function<void(Outcome)> done_;
  std::string bytes_;
};

}  // namespace rueda::core::launcher
