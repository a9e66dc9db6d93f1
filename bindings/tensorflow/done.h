#pragma once
#include <functional>

#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {

/// Returns whether the callbacks that TensorFlow gives to kernels can be copied. The first call looks at `given`, which
/// must be valid, and decides for the whole process.
bool is_copyable(TF_AsyncOpKernelDoneCallback* given);

/// Makes is_copyable() return false from here on, for tests of the kernels that block.
void forbid_copies();

/// A copy of the callback, which may be called once on any thread after the kernel's function has returned.
/// Precondition: is_copyable(given).
std::function<void()> copy_of(TF_AsyncOpKernelDoneCallback* given);

}  // namespace rueda::tensorflow
