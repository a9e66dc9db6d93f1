// Finds the file that a rename may replace. A rename onto a symbolic link would replace the link, and one onto
// /dev/null or a FIFO would take it away: so links are followed first, except those of other users, and only a regular
// file, or nothing yet, is accepted.
#include "runtime/diagnosis/replaceable.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "runtime/base/output_file.h"

namespace rueda::core {

Result<std::string> replaceable(const std::string& what, const std::string& path) {
  RUEDA_RETURN_IF_ERROR(check_link("the " + what, path));
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0)
    return path;  // not there yet; if its folder is missing too, opening the file will say so
  if (!S_ISREG(info.st_mode)) {
    return Status(
        Code::kSystem,
        fmt::format("the {} {} cannot be made: this name belongs to something that is not a regular file", what, path));
  }
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace rueda::core
