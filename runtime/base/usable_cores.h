#pragma once

namespace rueda::core {

/// Returns how many cores this process may use at once: those of its affinity mask, or fewer if its control group
/// (version 2) has a quota. At least 1.
int usable_cores();

}  // namespace rueda::core
