#pragma once
#include <cuda.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/cuda/device.h"

namespace rueda::gpu_speed {

/// GPU 0 of this process, by the driver that the plug-in would use. Failures end the program with a sentence. One
/// thread.
class Gpu {
 public:
  static Gpu& one();

  cuda::Device& device() { return *device_; }
  std::string name() const;
  CUstream make_stream();
  /// Memory of the GPU for the rest of the process, filled with small whole numbers of f32.
  std::byte* allocate(size_t bytes);
  void* allocate_pinned(size_t bytes);
  /// Memory of the host, if any, is pinned.
  void copy(void* to, const void* from, size_t bytes, CUstream stream);
  /// Blocks until the stream is empty.
  void drain(CUstream stream);
  /// Holds up what is put into the stream from here on, until `go` becomes 1. `go` is pinned memory.
  void hold(CUstream stream, const volatile uint32_t* go);
  /// Returns the milliseconds that the stream takes for what `work` puts into it: the median of `rounds` times.
  double time(CUstream stream, int rounds, const std::function<void()>& work);

  void require(CUresult result, const char* call) const;

 private:
  Gpu();

  cuda::Driver driver_;
  std::unique_ptr<cuda::Device> device_;
  decltype(&::cuEventElapsedTime) elapsed_ = nullptr;
  decltype(&::cuStreamWaitValue32_v2) hold_ = nullptr;
  CUevent drained_ = nullptr;
  CUstream filling_ = nullptr;
};

/// Ends the program with the sentence and code 1.
[[noreturn]] void fail(const std::string& sentence);
/// Seconds of a clock that all processes of a host share.
double now();
/// The value that `share` of all are not above.
double quantile(std::vector<double> values, double share);

/// What the program measures; each prints lines of JSON.
/// Those of the plug-in, or of the image in the file.
void measure_kernels(const std::string& file);
void measure_launches();
/// Sums of small tensors, which are packed; fails if they do not go by NCCL, unless RUEDA_NCCL is 0.
void show_packing();
void measure_rate(size_t bytes);
/// The last rank dies at the place, `making`, `first` or `steady`, and says when in the file; the others say how long
/// after that they were told.
void measure_death(const std::string& place, const std::string& file);
void look_idle();

}  // namespace rueda::gpu_speed
