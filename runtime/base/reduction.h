#pragma once
#include <string>

#include "runtime/base/dtype.h"

namespace rueda::core {

/// Why `op` has no meaning for `dtype`, with a way out; empty where it has one. The one place that knows: what it names
/// is refused at enqueue, and is a bug below.
std::string why_undefined(ReduceOp op, Dtype dtype);

}  // namespace rueda::core
