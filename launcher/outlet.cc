// Writes at most PIPE_BUF bytes (4 KiB) each time the descriptor is ready. O_NONBLOCK is not allowed here, because a
// shell may share the descriptor, and a blocking write of more could stop the loop until a slow terminal has taken it
// all.

#include "launcher/outlet.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rueda::core::launcher {
namespace {

// A pipe that is ready for writing takes this much without blocking; a file always does.
constexpr size_t kWriteBytes = PIPE_BUF;
constexpr size_t kCompactBytes = 1u << 20;  // written bytes are erased in bulk, as each erase moves the rest

}  // namespace

Outlet::Outlet(EventLoop& loop, int fd, std::function<void()> progress)
    : fd_(fd), writable_(loop, fd, Interest::kWrite), progress_(std::move(progress)) {}

void Outlet::write(std::string_view text) {
  if (error_ != 0) return;
  text_.append(text);
  if (!std::exchange(armed_, true)) arm();
}

void Outlet::arm() {
  writable_.arm([this] { push(); });
}

void Outlet::push() {
  const ssize_t put = ::write(fd_, text_.data() + written_, std::min(pending(), kWriteBytes));
  if (put > 0) written_ += static_cast<size_t>(put);
  if (put < 0 && errno != EAGAIN && errno != EINTR) error_ = errno;
  if (pending() == 0 || error_ != 0 || written_ >= kCompactBytes) {
    text_.erase(0, error_ != 0 ? text_.size() : written_);
    written_ = 0;
  }
  armed_ = pending() > 0;
  if (armed_) arm();
  progress_();
}

}  // namespace rueda::core::launcher
