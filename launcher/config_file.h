#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace rueda::core::launcher {

/// What a config file may say: flags by their long names.
struct ConfigVocabulary {
  std::vector<std::string> values;  ///< flags with a value: "np", "fusion-threshold-mb"
  std::vector<std::string>
      switches;  ///< flags without: "verbose", "hierarchical-allreduce", "no-hierarchical-allreduce"
};

/// Reads a YAML map of flags and values as words of a command line:
///
///     np: 8                            --np 8
///     hosts: [node1:4, node2:4]        --hosts node1:4,node2:4
///     verbose: true                    --verbose
///     hierarchical-allreduce: false    --no-hierarchical-allreduce (a switch that has no such form: nothing)
///
/// Flags in `given` (long names) were on the command line, in either form, and win: theirs are left out. A list of
/// hosts and a host file are such forms of each other.
/// kInvalidArgument: the line, what is wrong, and for an unknown name the nearest one.
Result<std::vector<std::string>> config_words(const std::string& yaml, const ConfigVocabulary& vocabulary,
                                              const std::set<std::string>& given);

}  // namespace rueda::core::launcher
