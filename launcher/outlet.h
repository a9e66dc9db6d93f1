#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "launcher/event_loop.h"

namespace rueda::core::launcher {

/// Writes to a descriptor that may be slow and that other processes may share, without blocking the loop and without
/// changing the descriptor's flags. Borrows the descriptor. Belongs to the loop's thread.
class Outlet {
 public:
  /// `progress` is called after each write.
  Outlet(EventLoop& loop, int fd, std::function<void()> progress);

  /// Queues `text`, which it copies.
  void write(std::string_view text);
  /// Bytes that are queued and not written.
  size_t pending() const { return text_.size() - written_; }
  /// The errno of the write that failed (EPIPE if the reader is gone), or 0. Later text is dropped.
  int error() const { return error_; }

 private:
  void arm();
  void push();

  int fd_;
  FdWatch writable_;
  std::function<void()> progress_;
  std::string text_;
  size_t written_ = 0;
  bool armed_ = false;
  int error_ = 0;
};

}  // namespace rueda::core::launcher
