#include "runtime/diagnosis/replaceable.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

namespace rueda::core {

Result<std::string> replaceable(const std::string& what, const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return path;  // not there yet, or in no folder, which opening it will tell
  if (!S_ISREG(info.st_mode)) {
    return Status(Code::kSystem,
                  fmt::format("the {} {} cannot be made: what has this name is no regular file", what, path));
  }
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace rueda::core
