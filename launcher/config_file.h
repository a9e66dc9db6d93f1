#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// The flags that a config file may give, by their long names.
struct ConfigVocabulary {
  std::vector<std::string> values;  ///< flags with a value: "np", "fusion-threshold-mb"
  /// Flags without a value: "verbose", "hierarchical-allreduce", "no-hierarchical-allreduce".
  std::vector<std::string> switches;
};

/// Turns a YAML map of flags and values into the words of a command line:
///
///     np: 8                            --np 8
///     hosts: [node1:4, node2:4]        --hosts node1:4,node2:4
///     verbose: true                    --verbose
///     hierarchical-allreduce: false    --no-hierarchical-allreduce (no word if the switch has no such form)
///
/// Flags of the command line (`given`, by long name) win: the file's entry for the same flag, or for its other form, is
/// left out. Other forms are `x` and `no-x`, and `hosts` and `hostfile`.
/// Returns kInvalidArgument with the line, what is wrong there, and for an unknown name the nearest one.
Result<std::vector<std::string>> config_words(const std::string& yaml, const ConfigVocabulary& vocabulary,
                                              const std::set<std::string>& given);

}  // namespace rueda::core::launcher
