#pragma once
#include <map>
#include <optional>
#include <string>

namespace rueda::core {

/// A snapshot of environment variables, taken at init so that nothing depends on who calls setenv later. A value: any
/// thread.
class Environment {
 public:
  Environment() = default;
  explicit Environment(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}

  /// Empty optional when the variable is unset or set to nothing (`VAR= command` counts as unset).
  std::optional<std::string> operator()(const std::string& name) const;
  const std::map<std::string, std::string>& all() const { return variables_; }

 private:
  std::map<std::string, std::string> variables_;
};

/// The process's own. As getenv, it must not run while another thread changes the environment.
Environment process_environment();

}  // namespace rueda::core
