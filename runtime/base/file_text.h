#pragma once
#include <string>

namespace rueda::core {

/// Returns the text of a file, or what could be read of it before an error; empty if it cannot be opened. Never
/// throws: a file of /proc/PID can be opened while the process lives, and reading it fails once the process has ended.
std::string file_text(const std::string& path);

}  // namespace rueda::core
