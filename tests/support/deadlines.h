#pragma once
#include "runtime/base/deadline.h"

namespace rueda::core {

/// Longer than anything takes that is to happen.
inline Deadline late() { return Deadline::after(std::chrono::minutes(3)); }
/// For what is not to happen.
inline Deadline soon() { return Deadline::after(std::chrono::milliseconds(50)); }

}  // namespace rueda::core
