// The driver's functions for modules and kernels. A module is the plug-in's image, and its kernels are those that the
// stand-in has itself. A kernel that was not loaded is not launched: a driver would load it then, and might wait for
// the GPU.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda/kernels.h"
#include "tests/support/cuda/state.h"

using rueda::test::KernelLaunch;
using rueda::test::StandinCounts;
using rueda::test::State;

namespace {

/// What every image of nvcc's begins with.
constexpr unsigned char kFatbin[] = {0x50, 0xed, 0x55, 0xba};

struct Function {
  std::string name;
  bool loaded = false;  ///< under the state's mutex
};

Function& of(CUfunction function) { return *reinterpret_cast<Function*>(function); }

/// Known for the life of the process, as the modules are.
CUfunction remember(const char* name) {
  static auto* const all = new std::vector<std::unique_ptr<Function>>;
  const std::lock_guard lock(State::one().mutex);
  all->push_back(std::make_unique<Function>(Function{name}));
  return reinterpret_cast<CUfunction>(all->back().get());
}

void count_one(int StandinCounts::*which) {
  const std::lock_guard lock(State::one().mutex);
  State::one().counts.*which += 1;
}

CUresult launch(KernelLaunch kernel, CUstream stream) {
  if (!rueda::test::why_not_launched(kernel).empty()) {
    count_one(&StandinCounts::wrong_kernels);
    return CUDA_ERROR_INVALID_VALUE;
  }
  count_one(&StandinCounts::kernels);
  return State::one().put(stream, [kernel = std::move(kernel)] {
    if (!rueda::test::run_kernel(kernel).empty()) count_one(&StandinCounts::wrong_kernels);
  });
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
extern "C" {
#pragma GCC visibility push(default)

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (const CUresult failed = State::one().begin("cuModuleLoadData"); failed != CUDA_SUCCESS) return failed;
  if (State::current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (rueda::test::number("STANDIN_CUDA_NO_KERNELS", 0) != 0) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  State::one().await_idle_if("STANDIN_CUDA_LOAD_WAITS");
  *module = reinterpret_cast<CUmodule>(const_cast<void*>(image));
  return std::memcmp(image, kFatbin, sizeof kFatbin) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}
CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  if (const CUresult failed = State::one().begin("cuModuleGetFunction"); failed != CUDA_SUCCESS) return failed;
  *function = remember(name);
  return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction function) {
  if (const CUresult failed = State::one().begin("cuFuncLoad"); failed != CUDA_SUCCESS) return failed;
  State::one().await_idle_if("STANDIN_CUDA_LOAD_WAITS");
  const std::lock_guard lock(State::one().mutex);
  of(function).loaded = true;
  ++State::one().counts.loads;
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned blocks_y, unsigned blocks_z, unsigned threads,
                        unsigned threads_y, unsigned threads_z, unsigned, CUstream stream, void** parameters, void**) {
  if (const CUresult failed = State::one().begin("cuLaunchKernel"); failed != CUDA_SUCCESS) return failed;
  {
    const std::lock_guard lock(State::one().mutex);
    if (!of(function).loaded) return CUDA_ERROR_NOT_FOUND;
  }
  if (blocks_y * blocks_z * threads_y * threads_z != 1) return CUDA_ERROR_INVALID_VALUE;
  return launch(rueda::test::launch_of(of(function).name, blocks, threads, parameters[0]), stream);
}

#pragma GCC visibility pop
}
// NOLINTEND(readability-identifier-naming)
