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
  const auto load = [&](CUfunction& function, const char* name) {
    if (result != CUDA_SUCCESS) return;
    call = "cuModuleGetFunction";
    result = driver.module_function(&function, module, name);
    if (result != CUDA_SUCCESS) return;
    call = "cuFuncLoad";
    result = driver.load_function(function);
  };
  for (size_t i = 0; i < kPackKernels; ++i) load(made->pack_[i], kPackKernelNames[i]);
  load(made->fold_, kFoldKernelName);
  if (result != CUDA_SUCCESS) return no_kernels(failure_of(driver, call, result));
  return made;
}

Status Kernels::launch(const PackParameters& parameters, CUstream stream) const {
  const PackTask& task = parameters.task;
  if (task.tiles == 0) return {};
  const unsigned threads = task.lanes == kWarp ? kWarpedThreads : kPackThreads;
  const unsigned at_once = threads / task.lanes;  // tiles of a block
  const unsigned most = most_blocks_ * (kPackThreads / threads);
  const unsigned blocks = std::min((task.tiles + at_once - 1) / at_once, most);
  return put(pack_[static_cast<size_t>(kernel_for(task))], blocks, threads, &parameters, stream);
}

Status Kernels::launch(const FoldParameters& parameters, CUstream stream) const {
  if (parameters.bytes == 0) return {};
  constexpr int64_t kInBlock = kFoldBytes * kFoldThreads;
  const int64_t blocks = (parameters.bytes + kInBlock - 1) / kInBlock;
  const auto most = static_cast<int64_t>(most_blocks_);
  return put(fold_, static_cast<unsigned>(std::min(blocks, most)), kFoldThreads, &parameters, stream);
}

Status Kernels::put(CUfunction function, unsigned blocks, unsigned threads, const void* parameters,
                    CUstream stream) const {
  void* pointers[] = {const_cast<void*>(parameters)};
  const Current current(device_);
  CUresult result = current.result();
  const char* call = "cuCtxPushCurrent";
  if (result == CUDA_SUCCESS) {
    call = "cuLaunchKernel";
    result = device_.driver().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr);
  }
  if (result == CUDA_SUCCESS) return {};
  return {Code::kSystem, failure_of(device_.driver(), call, result)};
}

}  // namespace rueda::cuda
