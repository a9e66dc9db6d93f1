#pragma once
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// A bash script that completes these flags, the files and folders behind the flags that want one, and behind the flags
/// the program and its own arguments.
std::string bash_completion(const std::vector<std::string>& flags);

}  // namespace rueda::core::launcher
