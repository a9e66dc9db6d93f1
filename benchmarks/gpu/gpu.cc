// The GPU that is measured, through the plug-in's own table of the driver's functions, and some more.
#include "benchmarks/gpu/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace rueda::gpu_speed {
namespace {

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

void fail(const std::string& sentence) {
  std::fprintf(stderr, "gpu_speed: %s\n", sentence.c_str());
  std::exit(1);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values.at(static_cast<size_t>(std::lround(share * last)));
}

Gpu& Gpu::one() {
  static auto* const gpu = new Gpu;
  return *gpu;
}

Gpu::Gpu() {
  const char* const named = std::getenv("RUEDA_CUDA_LIBRARY");
  auto driver = cuda::open_driver(named == nullptr ? "" : named);
  if (!driver.ok()) fail(driver.status().sentence());
  driver_ = driver.value();
  auto device = cuda::Device::make(driver_, 0);
  if (!device.ok()) fail(device.status().sentence());
  device_ = std::move(device).value();
  void* const library = ::dlopen(driver_.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  find(library, elapsed_, "cuEventElapsedTime");
  find(library, hold_, "cuStreamWaitValue32_v2");
}

void Gpu::require(CUresult result, const char* call) const {
  if (result != CUDA_SUCCESS) fail(cuda::failure_of(driver_, call, result));
}

std::string Gpu::name() const {
  char text[128] = {};
  CUdevice number{};
  require(driver_.device(&number, 0), "cuDeviceGet");
  require(driver_.device_name(text, sizeof text, number), "cuDeviceGetName");
  return text;
}

CUstream Gpu::make_stream() {
  const cuda::Current current(*device_);
  CUstream stream = nullptr;
  require(driver_.create_stream(&stream, CU_STREAM_NON_BLOCKING, 0), "cuStreamCreateWithPriority");
  return stream;
}

std::byte* Gpu::allocate(size_t bytes) {
  const cuda::Current current(*device_);
  CUdeviceptr memory = 0;
  require(driver_.allocate(&memory, bytes), "cuMemAlloc");
  if (filling_ == nullptr) filling_ = make_stream();
  auto* const numbers = static_cast<float*>(allocate_pinned(bytes + sizeof(float)));
  for (size_t i = 0; i < (bytes + sizeof(float) - 1) / sizeof(float); ++i) numbers[i] = static_cast<float>(i % 97);
  void* const to = reinterpret_cast<void*>(memory);
  copy(to, numbers, bytes, filling_);
  drain(filling_);
  require(driver_.free_pinned(numbers), "cuMemFreeHost");
  return static_cast<std::byte*>(to);
}

void* Gpu::allocate_pinned(size_t bytes) {
  const cuda::Current current(*device_);
  void* memory = nullptr;
  require(driver_.allocate_pinned(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
          "cuMemHostAlloc");
  return memory;
}

void Gpu::copy(void* to, const void* from, size_t bytes, CUstream stream) {
  const cuda::Current current(*device_);
  require(driver_.copy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream),
          "cuMemcpyAsync");
}

void Gpu::drain(CUstream stream) {
  const cuda::Current current(*device_);
  if (drained_ == nullptr) require(driver_.create_event(&drained_, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  require(driver_.record_event(drained_, stream), "cuEventRecord");
  for (;;) {
    const CUresult result = driver_.query_event(drained_);
    if (result == CUDA_SUCCESS) return;
    if (result != CUDA_ERROR_NOT_READY) require(result, "cuEventQuery");
  }
}

void Gpu::hold(CUstream stream, const volatile uint32_t* go) {
  if (hold_ == nullptr) fail("the driver lacks cuStreamWaitValue32");
  const cuda::Current current(*device_);
  require(hold_(stream, reinterpret_cast<CUdeviceptr>(go), 1, CU_STREAM_WAIT_VALUE_EQ), "cuStreamWaitValue32");
}

double Gpu::time(CUstream stream, int rounds, const std::function<void()>& work) {
  const cuda::Current current(*device_);
  CUevent begin{};
  CUevent end{};
  require(driver_.create_event(&begin, CU_EVENT_DEFAULT), "cuEventCreate");
  require(driver_.create_event(&end, CU_EVENT_DEFAULT), "cuEventCreate");
  std::vector<double> times;
  for (int round = -2; round < rounds; ++round) {  // two rounds warm up
    require(driver_.record_event(begin, stream), "cuEventRecord");
    work();
    require(driver_.record_event(end, stream), "cuEventRecord");
    drain(stream);
    float milliseconds = 0;
    if (elapsed_ == nullptr) fail("the driver lacks cuEventElapsedTime");
    require(elapsed_(&milliseconds, begin, end), "cuEventElapsedTime");
    if (round >= 0) times.push_back(static_cast<double>(milliseconds));
  }
  return quantile(times, 0.5);
}

}  // namespace rueda::gpu_speed
