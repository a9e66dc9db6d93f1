#pragma once
#include <map>
#include <string>
#include <vector>

namespace rueda::core::launcher {

/// A bash script that completes these flags, behind a flag in `choices` its words (blanks between them), the files and
/// folders behind the flags that want one, and behind the flags the program and its own arguments.
std::string bash_completion(const std::vector<std::string>& flags, const std::map<std::string, std::string>& choices);

}  // namespace rueda::core::launcher
