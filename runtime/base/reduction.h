#pragma once
#include <string>

#include "runtime/base/dtype.h"

namespace rueda::core {

/// Whether `op` means anything for elements of `dtype`.
bool is_defined(ReduceOp op, Dtype dtype);
/// Returns why `op` is not defined for `dtype` and what to use instead; empty if it is defined. Calls that it names are
/// refused at enqueue, so in a kernel they are a bug.
std::string why_undefined(ReduceOp op, Dtype dtype);

}  // namespace rueda::core
