#pragma once
#include "runtime/base/environment.h"

namespace rueda::core {

/// Logs which variables have no effect: HOROVOD_ names without a meaning here in one line at info, unknown RUEDA_ names
/// in one line each at warning, with the closest known name. Call it after the log has its level.
void report_unread(const Environment& environment);

}  // namespace rueda::core
