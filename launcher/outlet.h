#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "launcher/event_loop.h"

namespace rueda::core::launcher {

/// Writes to a descriptor that may be slow and may be shared with others, without blocking the loop and without
/// touching its flags. Borrows the descriptor. Belongs to the loop's thread.
class Outlet {
 public:
  /// `progress` is called after each write.
  Outlet(EventLoop& loop, int fd, std::function<void()> progress);

  void write(std::string_view text);
  /// Bytes that have not left.
  size_t pending() const { return text_.size() - written_; }
  /// The errno that closed it (EPIPE: the reader has gone), or 0. What is written afterwards is dropped.
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
