#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "launcher/event_loop.h"
#include "launcher/messages.h"
#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

/// The agent's side of the ranks' output: reads their pipes and sends the bytes, never more than kOutputWindow ahead of
/// what hvdrun has printed. So a slow terminal fills the pipes and slows only the ranks. Owns our ends of the pipes.
/// Belongs to the loop's thread.
class OutputTaps {
 public:
  OutputTaps(EventLoop& loop, std::function<void(const Message&)> send) : loop_(loop), send_(std::move(send)) {}

  /// Takes over the pipe of a rank's stdout (`stream` 1) or stderr (2), which must be non-blocking.
  void add(int rank, int stream, UniqueFd fd);
  /// hvdrun has printed so many more bytes.
  void taken(int64_t bytes);
  /// The link to hvdrun is gone: from now on output is read and dropped, so that no rank waits for space in its pipe.
  void discard();
  /// No process is left that could write, so an empty pipe counts as ended.
  void writers_gone();
  /// Returns whether all pipes have ended and everything in them was sent.
  bool drained() const;
  /// Called whenever `drained` may have become true.
  void on_drained(std::function<void()> callback) { drained_ = std::move(callback); }

 private:
  struct Tap {
    int rank;
    int stream;
    UniqueFd fd;
    std::unique_ptr<FdWatch> watch;
  };
  void arm(Tap& tap);
  void pump(Tap& tap);
  void close(Tap& tap);

  EventLoop& loop_;
  std::function<void(const Message&)> send_;
  std::function<void()> drained_;
  std::vector<std::unique_ptr<Tap>> taps_;
  std::vector<Tap*> parked_;  // readable, but the window is full
  int64_t window_ = kOutputWindow;
  bool discard_ = false;
  bool writers_gone_ = false;
};

}  // namespace rueda::core::launcher
