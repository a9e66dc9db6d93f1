#pragma once
#include <string>

namespace rueda::core::launcher {

/// Where a program's file is, or the shell's exit code (127 not found, 126 not executable) and a sentence.
struct ProgramFile {
  std::string path;
  int exit_code = 0;
  std::string sentence;
};

/// Looks a name up as a shell does: with a slash it is a path, else the first executable of that name in `search_path`
/// (PATH, folders separated by colons).
ProgramFile find_program(const std::string& name, const std::string& search_path);

}  // namespace rueda::core::launcher
