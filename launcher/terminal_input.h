#pragma once
#include <functional>
#include <string>

#include "launcher/event_loop.h"

namespace rueda::core::launcher {

/// Reads hvdrun's stdin, a piece at a time and only after rank 0 has taken the one before, so that input which no rank
/// reads stays with the shell. Belongs to the loop's thread.
class TerminalInput {
 public:
  /// Calls `piece` with the bytes, or with none at the end of the file.
  TerminalInput(EventLoop& loop, int fd, std::function<void(std::string)> piece);
  /// Asks for the next piece.
  void next();
  /// Stops reading.
  void stop() { readable_.disarm(); }

 private:
  void read();

  int fd_;
  FdWatch readable_;
  std::function<void(std::string)> piece_;
};

}  // namespace rueda::core::launcher
