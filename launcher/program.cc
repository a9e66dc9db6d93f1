// Finds the program before any process starts, so that a misspelt name is one sentence from hvdrun and not one from
// each rank. A file that is found but may not be run is remembered, and named if no later folder has a better one, as
// shells do.

#include "launcher/program.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rueda::core::launcher {
namespace {

// Returns 0, or the errno that running the file would give.
int problem_with(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

ProgramFile not_executable(const std::string& path, int error) {
  return {path, 126, fmt::format("cannot run \"{}\": {}", path, std::strerror(error))};
}

}  // namespace

ProgramFile find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    const int error = problem_with(name);
    if (error == 0) return {name, 0, {}};
    if (error != ENOENT && error != ENOTDIR) return not_executable(name, error);
    return {name, 127, fmt::format("there is no program \"{}\"", name)};
  }
  ProgramFile refused;
  for (size_t begin = 0; begin <= search_path.size();) {
    const size_t colon = std::min(search_path.find(':', begin), search_path.size());
    const std::string folder = search_path.substr(begin, colon - begin);
    const std::string path = (folder.empty() ? "." : folder) + "/" + name;
    const int error = problem_with(path);
    if (error == 0) return {path, 0, {}};
    if (error == EACCES && refused.exit_code == 0) refused = not_executable(path, error);
    begin = colon + 1;
  }
  if (refused.exit_code != 0) return refused;
  const std::string here = problem_with("./" + name) == 0 ? fmt::format("; did you mean ./{}?", name) : "";
  return {name, 127, fmt::format("there is no program \"{}\" in PATH{}", name, here)};
}

std::string search_path_of(const std::vector<std::string>& environment) {
  constexpr std::string_view kPath = "PATH=";
  for (const std::string& variable : environment) {
    if (variable.starts_with(kPath)) return variable.substr(kPath.size());
  }
  return "/usr/bin:/bin";
}

}  // namespace rueda::core::launcher
