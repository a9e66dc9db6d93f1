// The table is filled by the exact names that cuda.h's macros stand for: a name without its suffix is an older function
// with another signature. A function that is missing names a driver that is too old.
#include "ops/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "ops/cuda/symbol_finder.h"

namespace rueda::cuda {
namespace {

/// CUDA 11.2 brought cuMemAllocAsync and cuMemFreeAsync.
constexpr int kLeastVersion = 11020;

Status unsupported(std::string why) { return {Code::kUnsupported, std::move(why)}; }

void find_devices(SymbolFinder& finder, Driver& driver) {
  finder.find(driver.init, "cuInit");
  finder.find(driver.get_version, "cuDriverGetVersion");
  finder.find(driver.device_count, "cuDeviceGetCount");
  finder.find(driver.device, "cuDeviceGet");
  finder.find(driver.device_name, "cuDeviceGetName");
  finder.find(driver.device_uuid, "cuDeviceGetUuid_v2");
  finder.find(driver.device_attribute, "cuDeviceGetAttribute");
  finder.find(driver.device_memory, "cuDeviceTotalMem_v2");
  finder.find(driver.retain_context, "cuDevicePrimaryCtxRetain");
  finder.find(driver.push_context, "cuCtxPushCurrent_v2");
  finder.find(driver.pop_context, "cuCtxPopCurrent_v2");
  finder.find(driver.error_name, "cuGetErrorName");
  finder.find(driver.error_text, "cuGetErrorString");
}

void find_streams(SymbolFinder& finder, Driver& driver) {
  finder.find(driver.priority_range, "cuCtxGetStreamPriorityRange");
  finder.find(driver.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  finder.find(driver.stream_is_capturing, "cuStreamIsCapturing");
  finder.find(driver.create_stream, "cuStreamCreateWithPriority");
  finder.find(driver.stream_wait, "cuStreamWaitEvent");
  finder.find(driver.create_event, "cuEventCreate");
  finder.find(driver.record_event, "cuEventRecord");
  finder.find(driver.query_event, "cuEventQuery");
  finder.find(driver.elapsed, "cuEventElapsedTime");
  finder.find(driver.launch_host_function, "cuLaunchHostFunc");
}

void find_memory(SymbolFinder& finder, Driver& driver) {
  finder.find(driver.allocate, "cuMemAlloc_v2");
  finder.find(driver.free, "cuMemFree_v2");
  finder.find(driver.allocate_async, "cuMemAllocAsync");
  finder.find(driver.free_async, "cuMemFreeAsync");
  finder.find(driver.allocate_pinned, "cuMemHostAlloc");
  finder.find(driver.free_pinned, "cuMemFreeHost");
  finder.find(driver.copy, "cuMemcpyAsync");
}

void find_kernels(SymbolFinder& finder, Driver& driver) {
  finder.find(driver.load_module, "cuModuleLoadData");
  finder.find(driver.module_function, "cuModuleGetFunction");
  finder.find_optional(driver.load_function, "cuFuncLoad");
  finder.find(driver.launch_kernel, "cuLaunchKernel");
}

/// Without a context: a CPU job must not hold memory on a GPU.
Status start(Driver& driver) {
  if (const CUresult result = driver.init(0); result != CUDA_SUCCESS) {
    return unsupported(
        fmt::format("{}; nvidia-smi says whether the driver works", failure_of(driver, "cuInit", result)));
  }
  int count = 0;
  if (const CUresult result = driver.device_count(&count); result != CUDA_SUCCESS) {
    return unsupported(failure_of(driver, "cuDeviceGetCount", result));
  }
  if (count == 0) return unsupported("the driver finds no GPU; CUDA_VISIBLE_DEVICES may hide them");
  return {};
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string failure_of(const Driver& driver, const char* call, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != CUDA_SUCCESS || driver.error_text(result, &text) != CUDA_SUCCESS) {
    return fmt::format("{}: error {}", call, static_cast<int>(result));
  }
  return fmt::format("{}: {} ({})", call, text, name);
}

Result<Driver> open_driver(const std::string& named) {
  const std::string file = named.empty() ? "libcuda.so.1" : named;
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return unsupported(
        fmt::format("there is no CUDA driver: {}; install NVIDIA's driver (Debian: apt install nvidia-driver, Ubuntu: "
                    "ubuntu-drivers install; containers: --gpus all gives them the host's), or name its library in "
                    "RUEDA_CUDA_LIBRARY",
                    why == nullptr ? file + " cannot be opened" : why));
  }
  Driver driver{};
  SymbolFinder finder(library);
  find_devices(finder, driver);
  find_streams(finder, driver);
  find_memory(finder, driver);
  find_kernels(finder, driver);
  driver.path = path_of(reinterpret_cast<void*>(driver.init), file);
  const bool has_version = driver.get_version != nullptr && driver.get_version(&driver.version) == CUDA_SUCCESS;
  if (finder.missing() != nullptr || !has_version || driver.version < kLeastVersion) {
    return unsupported(fmt::format("the CUDA driver {} serves CUDA {}{}; the least is CUDA {}: install a newer driver",
                                   driver.path, version_text(driver.version),
                                   finder.missing() == nullptr ? "" : fmt::format(" and has no {}", finder.missing()),
                                   version_text(kLeastVersion)));
  }
  RUEDA_RETURN_IF_ERROR(start(driver));
  return driver;
}

}  // namespace rueda::cuda
