// Reads a small regular file with read(2), because std::ifstream does not say why it failed, opens folders without
// complaint, and reads from a device without end.
// Editors of Windows begin a file with a byte order mark, which would become part of the first host's name.

#include "launcher/text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "runtime/base/unique_fd.h"

namespace rueda::core::launcher {

constexpr size_t kMostBytes = size_t{16} << 20;  // a hostfile of 100,000 hosts has 3
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Result<std::string> read_text_file(const std::string& what, const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, fmt::format("{} {} cannot be read: {}", what, path, why));
  };
  // Without O_NONBLOCK a FIFO would hold hvdrun until another process writes to it.
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return refused(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return refused(std::strerror(EISDIR));
  if (!S_ISREG(info.st_mode)) return refused("it is not a regular file; write the text to one first");
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(file.get(), buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refused(std::strerror(errno));
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMostBytes) return refused(fmt::format("it has more than {} MiB", kMostBytes >> 20));
  }
  return text.starts_with(kByteOrderMark) ? text.substr(3) : text;
}

}  // namespace rueda::core::launcher
