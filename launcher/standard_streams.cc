// Makes descriptors 0 to 2 safe at the start and complete at the end. stdio buffers, so a full disk may show only at
// the last flush; without it hvdrun --check-build > file could lose its text and exit with 0.

#include "launcher/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace rueda::core::launcher {

bool open_closed_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (open("/dev/null", O_RDWR) != fd) return false;  // the lowest free number is this one
  }
  return true;
}

std::string flush_stdout() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return errno == 0 ? "an earlier write failed" : std::strerror(errno);
}

}  // namespace rueda::core::launcher
