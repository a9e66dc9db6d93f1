#pragma once
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// The file of a program, or the exit code that a shell would give (127 not found, 126 not executable) and a sentence.
struct ProgramFile {
  std::string path;
  int exit_code = 0;
  std::string sentence;
};

/// Finds a program as a shell does: a name with a slash is a path, any other is the first executable of that name in
/// `search_path` (folders separated by colons, as in PATH).
ProgramFile find_program(const std::string& name, const std::string& search_path);

/// Returns PATH of an environment in the form NAME=value, or that of the system.
std::string search_path_of(const std::vector<std::string>& environment);

}  // namespace rueda::core::launcher
