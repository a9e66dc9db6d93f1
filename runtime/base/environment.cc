// A copy of the environment, taken once. getenv and setenv race with each other, and a framework may call setenv at any
// time; a copy also lets tests hand in an environment of their own.
#include "runtime/base/environment.h"

#include <unistd.h>

#include <string_view>

namespace rueda::core {

std::optional<std::string> Environment::operator()(const std::string& name) const {
  const auto found = variables_.find(name);
  if (found == variables_.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

Environment process_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view pair(*entry);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(pair.substr(0, equals), pair.substr(equals + 1));  // the first of two wins, as in getenv
  }
  return Environment(std::move(variables));
}

}  // namespace rueda::core
