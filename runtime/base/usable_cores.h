#pragma once

namespace rueda::core {

/// Cores this process may use at once: those of its affinity, or fewer where the control group (version 2) has a quota.
/// At least 1.
int usable_cores();

}  // namespace rueda::core
