#pragma once
#include <string>

namespace rueda::core {

/// Returns the text of a file, or what could be read of it before an error; empty if it cannot be opened. A read that
/// fails throws nothing: a file of /proc/PID can be opened while the process lives, and cannot be read any more once
/// the process has ended.
std::string file_text(const std::string& path);

}  // namespace rueda::core
