#pragma once
#include <map>
#include <optional>
#include <string>

namespace rueda::core {

/// A snapshot of environment variables, taken at init so that later calls of setenv change nothing. A value: any
/// thread.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}

  /// Returns nothing if the variable is unset or empty (`VAR= command` counts as unset).
  std::optional<std::string> operator()(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return variables_; }

 private:
  std::map<std::string, std::string> variables_;
};

/// Returns a snapshot of the process's own environment. Like getenv, it must not run while another thread changes the
/// environment.
Environment process_environment();

}  // namespace rueda::core
