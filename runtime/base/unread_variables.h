#pragma once
#include "runtime/base/environment.h"

namespace rueda::core {

/// Logs which variables have no effect: HOROVOD_ names without a meaning here in one line at info, RUEDA_ names that
/// nobody reads in one line each at warning, with the closest known name. To be called once the log has its level.
void report_unread(const Environment& environment);

}  // namespace rueda::core
