#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "launcher/membership.h"

namespace rueda::core::launcher {

/// The flags of elastic jobs, as given.
struct ElasticArguments {
  std::optional<int> least;  ///< --min-np
  std::optional<int> most;   ///< --max-np
  std::string script;        ///< --host-discovery-script
  std::optional<int> slots_per_host;
  std::optional<double> discovery_interval_seconds;  ///< --discovery-interval
  std::optional<double> discovery_timeout_seconds;   ///< --discovery-timeout
  std::optional<double> timeout_seconds;             ///< --elastic-timeout
  std::optional<double> rejoin_timeout_seconds;      ///< --rejoin-timeout
  std::optional<double> removal_timeout_seconds;     ///< --removal-timeout
  std::optional<int> reset_limit;
  std::optional<std::pair<int, int>> cooldown_seconds;  ///< --blacklist-cooldown-range
  std::optional<int> blacklist_after;
  std::optional<Admission> admission;
  bool horovod_defaults = false;  ///< --horovod-defaults

  /// Returns whether the flags make the job elastic.
  bool elastic() const { return least.has_value() || !script.empty(); }
};

}  // namespace rueda::core::launcher
