#pragma once
#include <memory>
#include <vector>

#include "bindings/c/launcher_link.h"
#include "bindings/c/plugins.h"
#include "bindings/c/static_sets.h"

namespace rueda::core {

/// Returns kInvalidArgument if the settings force an algorithm that is not there or cannot serve; the plug-ins' errors.
Status check_rows(const Settings& settings, const Plugins& plugins);

/// Starts the engine of a formed epoch and adds the sets that init's caller gave.
Result<std::shared_ptr<Engine>> start_engine(Formation formation, LauncherLink launcher, const Plugins& plugins,
                                             const std::vector<StaticSet>& sets);

}  // namespace rueda::core
