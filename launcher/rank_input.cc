// Writes stdin pieces into a rank's pipe. hvdrun reads its next piece only after `done`, so at most one piece (16 KiB)
// is between the shell and the rank, and input that the rank does not read stays with the shell.

#include "launcher/rank_input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rueda::core::launcher {

RankInput::RankInput(EventLoop& loop, UniqueFd fd, std::function<void(Outcome)> done)
    : fd_(std::move(fd)), writable_(loop, fd_.get(), Interest::kWrite), done_(std::move(done)) {}

void RankInput::write(std::string bytes) {
  if (bytes.empty()) {
    writable_.disarm();
    return fd_.reset();
  }
  bytes_ = std::move(bytes);
  push();
}

void RankInput::push() {
  const ssize_t put = fd_.valid() ? ::write(fd_.get(), bytes_.data(), bytes_.size()) : -1;
  // EPIPE, or a pipe closed before: the rank reads no more, which is not an error of the job.
  const bool later = put < 0 && fd_.valid() && (errno == EAGAIN || errno == EINTR);
  if (put < 0 && !later) {
    fd_.reset();
    return done_(Outcome::kClosed);
  }
  if (put > 0) bytes_.erase(0, static_cast<size_t>(put));
  if (bytes_.empty()) return done_(Outcome::kTaken);
  writable_.arm([this] { push(); });
}

}  // namespace rueda::core::launcher
