// The driver of real GPUs, as the tests use the stand-in.
#include "tests/ops/cuda/real_gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "ops/cuda/driver.h"

namespace rueda::test {
namespace {

void require(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(call) + ": " + std::to_string(result));
}

/// What the plug-in does not call.
struct More {
  decltype(&::cuStreamDestroy_v2) destroy_stream;
  decltype(&::cuStreamSynchronize) drain_stream;
  decltype(&::cuStreamBeginCapture_v2) begin_capture;
  decltype(&::cuStreamEndCapture) end_capture;
  decltype(&::cuGraphGetNodes) nodes_of;
  decltype(&::cuGraphDestroy) destroy_graph;
  decltype(&::cuCtxGetDevice) current_device;
  decltype(&::cuCtxSetCurrent) use_context;
  decltype(&::cuDevicePrimaryCtxGetState) context_state;
  decltype(&::cuPointerGetAttribute) attribute_of;
  decltype(&::cuMemGetAddressRange_v2) range_of;
  decltype(&::cuMemcpyDtoH_v2) copy_to_host;
};

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + name);
}

class RealGpu : public StandinCuda {
 public:
  RealGpu() {
    auto driver = cuda::open_driver("");
    if (!driver.ok()) throw std::runtime_error(driver.status().sentence());
    driver_ = driver.value();
    void* const library = ::dlopen(driver_.path.c_str(), RTLD_NOW | RTLD_LOCAL);
    find(library, more_.destroy_stream, "cuStreamDestroy_v2");
    find(library, more_.drain_stream, "cuStreamSynchronize");
    find(library, more_.begin_capture, "cuStreamBeginCapture_v2");
    find(library, more_.end_capture, "cuStreamEndCapture");
    find(library, more_.nodes_of, "cuGraphGetNodes");
    find(library, more_.destroy_graph, "cuGraphDestroy");
    find(library, more_.current_device, "cuCtxGetDevice");
    find(library, more_.use_context, "cuCtxSetCurrent");
    find(library, more_.context_state, "cuDevicePrimaryCtxGetState");
    find(library, more_.attribute_of, "cuPointerGetAttribute");
    find(library, more_.range_of, "cuMemGetAddressRange_v2");
    find(library, more_.copy_to_host, "cuMemcpyDtoH_v2");
    int count = 0;
    require(driver_.device_count(&count), "cuDeviceGetCount");
    contexts_.resize(static_cast<size_t>(count));
  }

  CUstream make_stream(int device, unsigned flags) override {
    use_device(device);
    CUstream stream = nullptr;
    require(driver_.create_stream(&stream, flags, 0), "cuStreamCreateWithPriority");
    return stream;
  }
  void end_stream(CUstream stream) override {
    use_device(0);
    require(more_.destroy_stream(stream), "cuStreamDestroy");
  }
  void* allocate(size_t bytes) override {
    use_device(0);
    void* memory = nullptr;
    require(driver_.allocate_pinned(&memory, bytes + 1, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
            "cuMemHostAlloc");
    return memory;
  }
  void release(void* memory) override {
    use_device(0);
    require(driver_.free_pinned(memory), "cuMemFreeHost");
  }
  void launch(CUstream stream, std::function<void()> kernel) override {
    use_device(0);
    const auto run = [](void* function) {
      const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(function));
      (*work)();
    };
    auto work = std::make_unique<std::function<void()>>(std::move(kernel));
    require(driver_.launch_host_function(stream, run, work.get()), "cuLaunchHostFunc");
    static_cast<void>(work.release());
  }
  void drain(CUstream stream) override {
    use_device(0);
    require(more_.drain_stream(stream), "cuStreamSynchronize");
  }
  /// Of memory that the library has taken on the GPU, a copy of now; else, and inside a kernel, the memory itself.
  void* in_kernel(const void* memory) override {
    const auto address = reinterpret_cast<CUdeviceptr>(memory);
    unsigned type = CU_MEMORYTYPE_HOST;
    const CUresult known = more_.attribute_of(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    if (known != CUDA_SUCCESS || type != CU_MEMORYTYPE_DEVICE) return const_cast<void*>(memory);
    use_device(0);
    CUdeviceptr begin = 0;
    size_t bytes = 0;
    require(more_.range_of(&begin, &bytes, address), "cuMemGetAddressRange");
    const std::lock_guard lock(mutex_);
    std::vector<std::byte>& copy = copies_.emplace_back(bytes);
    require(more_.copy_to_host(copy.data(), begin, bytes), "cuMemcpyDtoH");
    return copy.data() + (address - begin);
  }
  int current_device() override {
    CUdevice device = -1;
    return more_.current_device(&device) == CUDA_SUCCESS ? device : -1;
  }
  void use_device(int device) override {
    const std::lock_guard lock(mutex_);
    CUcontext& context = contexts_.at(static_cast<size_t>(device));
    if (context == nullptr) {
      CUdevice number{};
      require(driver_.device(&number, device), "cuDeviceGet");
      require(driver_.retain_context(&context, number), "cuDevicePrimaryCtxRetain");
    }
    require(more_.use_context(context), "cuCtxSetCurrent");
  }
  StandinCounts counts() override { return {}; }
  bool has_ended() override { return false; }
  int contexts_of(int device) override {
    unsigned flags = 0;
    int active = 0;
    require(more_.context_state(device, &flags, &active), "cuDevicePrimaryCtxGetState");
    return active;
  }
  void fail(const std::string& function, int, CUresult, bool) override {
    throw std::runtime_error(function + " of a real driver does not fail on order");
  }
  void heal() override {}
  void hold_copies(int) override { throw std::runtime_error("nobody holds up a real GPU's copies"); }
  void let_copies_go(int) override {}
  void skip_time(std::chrono::nanoseconds) override { throw std::runtime_error("nobody moves a real GPU's clock"); }
  void begin_capture(CUstream stream, CUstreamCaptureMode mode) override {
    require(more_.begin_capture(stream, mode), "cuStreamBeginCapture");
  }
  int end_capture(CUstream stream) override {
    CUgraph graph = nullptr;
    if (more_.end_capture(stream, &graph) != CUDA_SUCCESS || graph == nullptr) return -1;
    size_t nodes = 0;
    require(more_.nodes_of(graph, nullptr, &nodes), "cuGraphGetNodes");
    require(more_.destroy_graph(graph), "cuGraphDestroy");
    return static_cast<int>(nodes);
  }

 private:
  cuda::Driver driver_{};
  More more_{};
  std::mutex mutex_;
  std::vector<CUcontext> contexts_;  ///< made at the first use, for the rest of the process
  std::list<std::vector<std::byte>> copies_;
};

}  // namespace

bool on_real_gpus() {
  const char* const wanted = std::getenv("TEST_GPU");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

StandinCuda& real_gpu() {
  static auto* const one = new RealGpu;
  return *one;
}

}  // namespace rueda::test
