// Finds the file that a rename may replace. A rename onto a symbolic link would replace the link, and one onto
// /dev/null or a FIFO would take it away: so links are followed first, except those of other users, and only a regular
// file, or nothing yet, is accepted.
#include "runtime/diagnosis/replaceable.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
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

Status replace_file(const std::string& what, const std::string& path, std::string_view text) {
  const Result<std::string> found = replaceable(what, path);
  if (!found.ok()) return found.status();
  const std::string& target = found.value();
  const std::string beside = fmt::format("{}.{}.part", target, ::getpid());
  const Result<UniqueFd> file = make_output("the " + what, beside);
  if (!file.ok()) return file.status();
  if (write_all(file.value().get(), text) && std::rename(beside.c_str(), target.c_str()) == 0) return {};
  const int error = errno;  // before `unlink`, which may change it
  ::unlink(beside.c_str());
  return {Code::kSystem, fmt::format("the {} cannot be written to {}: {}", what, target, std::strerror(error))};
}

}  // namespace rueda::core
