// Reads stdin for rank 0 with plain blocking reads after the descriptor became readable: O_NONBLOCK would also hit the
// shell that shares the terminal.

#include "launcher/terminal_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace rueda::core::launcher {

TerminalInput::TerminalInput(EventLoop& loop, int fd, std::function<void(std::string)> piece)
    : fd_(fd), readable_(loop, fd, Interest::kRead), piece_(std::move(piece)) {}

void TerminalInput::next() {
  readable_.arm([this] { read(); });
}

void TerminalInput::read() {
  std::array<char, 16 << 10> buffer;
  const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return next();
  // EIO means that hvdrun is in the background of a terminal, which counts as the end of the file: no key is for it.
  piece_(std::string(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0));
}

}  // namespace rueda::core::launcher
