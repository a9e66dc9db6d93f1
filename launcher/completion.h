#pragma once
#include <map>
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// Returns a bash script that completes `flags`. After a flag of `choices` it offers that flag's words (separated by
/// blanks), after flags that take a file or a folder those, and after the flags the program and its own arguments.
std::string bash_completion(const std::vector<std::string>& flags, const std::map<std::string, std::string>& choices);

}  // namespace rueda::core::launcher
