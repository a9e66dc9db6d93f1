#pragma once
#include "ops/cuda/devices.h"
#include "runtime/base/device_functions.h"

namespace rueda::cuda {

/// The value of rueda_tensor.device: RUEDA_DEVICE_CUDA.
inline constexpr int32_t kCudaDevice = 1;

/// What the engine sees of the GPUs. `devices` outlives the process's use of it.
core::DeviceFunctions device_functions(Devices& devices);

}  // namespace rueda::cuda
