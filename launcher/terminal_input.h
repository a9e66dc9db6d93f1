#pragma once
#include <functional>
#include <string>

#include "launcher/event_loop.h"

namespace rueda::core::launcher {

/// hvdrun's stdin, read a piece at a time and only when the one before was taken: what no rank reads stays with the
/// shell. Belongs to the loop's thread.
class TerminalInput {
 public:
  /// `piece` gets the bytes, or none at the end of the file.
  TerminalInput(EventLoop& loop, int fd, std::function<void(std::string)> piece);
  /// Asks for the next piece.
  void next();
  /// Reads no more.
  void stop() { readable_.disarm(); }

 private:
  void read();

  int fd_;
  FdWatch readable_;
  std::function<void(std::string)> piece_;
};

}  // namespace rueda::core::launcher
