// Loads and launches the kernels.
//
// A driver that loads lazily would load a kernel at its first launch, and wait for the GPU then. If a kernel of NCCL's
// waits on that GPU for another rank, which waits for this one, nobody goes on. So all are loaded at once, and an
// engine asks for them before it makes its first communicator.
#include "ops/cuda/kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cuda/device.h"

namespace rueda::cuda {
namespace {

/// What one of a GPU's processors has room for; more blocks would only end sooner.
constexpr unsigned kBlocksEach = 4;

Status no_kernels(std::string why) { return {Code::kUnsupported, std::move(why)}; }

}  // namespace

PackKernel kernel_for(const PackTask& task) {
  if (moves_bits(task)) return PackKernel::kBits;
  return core::is_float(task.dtype) ? PackKernel::kFloats : PackKernel::kIntegers;
}

Result<std::unique_ptr<Kernels>> Kernels::load(const Device& device, std::span<const std::byte> image) {
  const Driver& driver = device.driver();
  if (image.empty()) return no_kernels("the plug-in was built without nvcc");
  if (driver.load_function == nullptr)
    return no_kernels("the CUDA driver has no cuFuncLoad, which came with CUDA 12.4");
  const Current current(device);
  const char* call = "cuCtxPushCurrent";
  CUresult result = current.result();
  int processors = 1;
  if (result == CUDA_SUCCESS) {
    call = "cuDeviceGetAttribute";
    result = device.attribute(processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  }
  std::unique_ptr<Kernels> made(new Kernels(device, static_cast<unsigned>(std::max(processors, 1)) * kBlocksEach));
  CUmodule module{};
  if (result == CUDA_SUCCESS) {
    call = "cuModuleLoadData";
    result = driver.load_module(&module, image.data());
  }
  for (size_t i = 0; i < kPackKernels && result == CUDA_SUCCESS; ++i) {
    call = "cuModuleGetFunction";
    result = driver.module_function(&made->functions_[i], module, kPackKernelNames[i]);
    if (result != CUDA_SUCCESS) break;
    call = "cuFuncLoad";
    result = driver.load_function(made->functions_[i]);
  }
  if (result != CUDA_SUCCESS) return no_kernels(failure_of(driver, call, result));
  return made;
}

Status Kernels::launch(const PackParameters& parameters, CUstream stream) const {
  if (parameters.task.tiles == 0) return {};
  const unsigned blocks = std::min(parameters.task.tiles, most_blocks_);
  void* pointers[] = {const_cast<PackParameters*>(&parameters)};
  const Current current(device_);
  CUresult result = current.result();
  const char* call = "cuCtxPushCurrent";
  if (result == CUDA_SUCCESS) {
    call = "cuLaunchKernel";
    result = device_.driver().launch_kernel(functions_[static_cast<size_t>(kernel_for(parameters.task))], blocks, 1, 1,
                                            kPackThreads, 1, 1, 0, stream, pointers, nullptr);
  }
  if (result == CUDA_SUCCESS) return {};
  return {Code::kSystem, failure_of(device_.driver(), call, result)};
}

}  // namespace rueda::cuda
