// Reads a small file with stdio, because std::ifstream does not say why it failed, and opens folders without complaint.
// Editors of Windows begin a file with a byte order mark, which would become part of the first host's name.

#include "launcher/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

namespace rueda::core::launcher {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Result<std::string> read_text_file(const std::string& what, const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  std::string text;
  char buffer[4096];
  while (file != nullptr) {
    const size_t got = std::fread(buffer, 1, sizeof buffer, file.get());
    if (got == 0 && std::ferror(file.get()) == 0) return text.starts_with(kByteOrderMark) ? text.substr(3) : text;
    if (got == 0) break;
    text.append(buffer, got);
  }
  return Status(Code::kInvalidArgument, fmt::format("{} {} cannot be read: {}", what, path, std::strerror(errno)));
}

}  // namespace rueda::core::launcher
