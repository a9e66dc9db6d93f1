#pragma once
#include <unistd.h>

#include <utility>

#include "runtime/base/fork_closed.h"

namespace rueda::core {

/// Owns one file descriptor (-1: none) and closes it. A child that a process with a session forks does not keep it
/// (fork_closed.h). Not shared between threads.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) { close_in_child(fd_); }
  ~UniqueFd() { reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() {
    keep_in_child(fd_);
    return std::exchange(fd_, -1);
  }
  void reset() {
    if (fd_ < 0) return;
    keep_in_child(fd_);
    ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace rueda::core
