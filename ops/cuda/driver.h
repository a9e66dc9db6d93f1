#pragma once
#include <cuda.h>

#include <string>

#include "runtime/base/status.h"

namespace rueda::cuda {

using core::Code;
using core::Result;
using core::Status;

/// The functions of the CUDA driver that the plug-in calls, found at run time: so one binary loads on machines without
/// a driver, and serves whichever CUDA version the process's framework brings. Immutable; any thread.
struct Driver {
  decltype(&::cuInit) init;
  decltype(&::cuDriverGetVersion) get_version;
  decltype(&::cuDeviceGetCount) device_count;
  decltype(&::cuDeviceGet) device;
  decltype(&::cuDeviceGetName) device_name;
  decltype(&::cuDeviceGetUuid_v2) device_uuid;
  decltype(&::cuDeviceGetAttribute) device_attribute;
  decltype(&::cuDeviceTotalMem_v2) device_memory;
  decltype(&::cuDevicePrimaryCtxRetain) retain_context;
  decltype(&::cuCtxPushCurrent_v2) push_context;
  decltype(&::cuCtxPopCurrent_v2) pop_context;
  decltype(&::cuCtxGetStreamPriorityRange) priority_range;
  decltype(&::cuThreadExchangeStreamCaptureMode) exchange_capture_mode;
  decltype(&::cuStreamIsCapturing) stream_is_capturing;
  decltype(&::cuStreamCreateWithPriority) create_stream;
  decltype(&::cuStreamWaitEvent) stream_wait;
  decltype(&::cuEventCreate) create_event;
  decltype(&::cuEventRecord) record_event;
  decltype(&::cuEventQuery) query_event;
  CUresult (*elapsed)(float* milliseconds, CUevent from, CUevent to);  ///< cuEventElapsedTime
  decltype(&::cuLaunchHostFunc) launch_host_function;
  decltype(&::cuMemAlloc_v2) allocate;
  decltype(&::cuMemFree_v2) free;
  decltype(&::cuMemAllocAsync) allocate_async;
  decltype(&::cuMemFreeAsync) free_async;
  decltype(&::cuMemHostAlloc) allocate_pinned;
  decltype(&::cuMemFreeHost) free_pinned;
  decltype(&::cuMemcpyAsync) copy;
  decltype(&::cuModuleLoadData) load_module;
  decltype(&::cuModuleGetFunction) module_function;
  CUresult (*load_function)(CUfunction function);  ///< cuFuncLoad; null before CUDA 12.4
  decltype(&::cuLaunchKernel) launch_kernel;
  decltype(&::cuGetErrorName) error_name;
  decltype(&::cuGetErrorString) error_text;

  std::string path;  ///< where the library lies
  int version = 0;   ///< of the CUDA that it serves: 13000
};

/// Opens the driver's library: the one at `named` (RUEDA_CUDA_LIBRARY), or libcuda.so.1 if that is empty. Makes no
/// context. The library stays open. Returns kUnsupported if there is none, it is too old, or it finds no GPU; the
/// sentence says what to do.
Result<Driver> open_driver(const std::string& named);

/// `cuMemcpyAsync: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)`.
std::string failure_of(const Driver& driver, const char* call, CUresult result);

/// `13.0`, of the number that the driver gives.
std::string version_text(int version);

}  // namespace rueda::cuda
