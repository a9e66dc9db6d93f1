#pragma once
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <latch>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bindings/operations.h"
#include "tests/ops/cuda/real_gpu.h"
#include "tests/support/cuda/standin.h"
#include "tests/support/rank_threads.h"

namespace rueda::test {

/// The library that the plug-in uses: the stand-in, or the driver's own if that is empty.
inline const char* gpu_library() { return on_real_gpus() ? "" : RUEDA_TEST_CUDA; }

/// The stand-in for the driver, which the plug-in of this process uses from the first call of this on.
inline StandinCuda& gpu() {
  static StandinCuda* const one = [] {
    if (on_real_gpus()) return &real_gpu();
    ::setenv("RUEDA_CUDA_LIBRARY", RUEDA_TEST_CUDA, 1);
    void* const library = ::dlopen(RUEDA_TEST_CUDA, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error(::dlerror());
    return reinterpret_cast<StandinCuda* (*)()>(::dlsym(library, "rueda_standin_cuda"))();
  }();
  return *one;
}

/// A variable of the environment for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// A stream on a GPU for a scope.
class GpuStream {
 public:
  explicit GpuStream(int device, unsigned flags = CU_STREAM_NON_BLOCKING) : stream_(gpu().make_stream(device, flags)) {}
  ~GpuStream() { gpu().end_stream(stream_); }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  CUstream get() const { return stream_; }

 private:
  CUstream stream_;
};

/// Memory of a GPU for a scope. The elements lie `offset` elements behind its beginning.
template <typename T>
class GpuMemory {
 public:
  explicit GpuMemory(size_t count, size_t offset = 0)
      : count_(count), offset_(offset), memory_(gpu().allocate((count + offset) * sizeof(T))) {}
  explicit GpuMemory(const std::vector<T>& values) : GpuMemory(values.size()) {
    if (!values.empty()) std::memcpy(kernels(), values.data(), values.size() * sizeof(T));
  }
  ~GpuMemory() { gpu().release(memory_); }
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  /// The address as programs know it.
  T* data() const { return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(memory_) + offset_ * sizeof(T)); }
  /// The address as kernels know it.
  T* kernels() const { return static_cast<T*>(gpu().in_kernel(data())); }
  /// The values now. Nothing may be about to write them.
  std::vector<T> values() const { return {kernels(), kernels() + count_}; }

 private:
  size_t count_;
  size_t offset_;
  void* memory_;
};

/// A tensor of floats on GPU `index`.
class GpuTensor : public CTensor {
 public:
  GpuTensor(float* data, int64_t count, int index) : CTensor(data, RUEDA_F32, {count}) {
    (*this)->device = RUEDA_DEVICE_CUDA;
    (*this)->device_index = index;
  }
};

inline rueda_op_options on_stream(const char* name, CUstream stream) {
  rueda_op_options options = named(name);
  options.stream = stream;
  return options;
}

inline std::vector<float> numbers(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<size_t>(rank) * 1000 + i % 97);
  return values;
}

inline void expect_sums(const std::vector<float>& values, int size, const std::string& what) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float sum =
        static_cast<float>(size * (size - 1) / 2 * 1000) + static_cast<float>(size) * static_cast<float>(i % 97);
    if (values[i] == sum) continue;
    expect(false, what + ": element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", expected " +
                      std::to_string(sum));
  }
}

/// A sum in place on GPU `index`.
inline rueda_handle sum_on_gpu(rueda_session* session, const GpuMemory<float>& memory, int64_t count, const char* name,
                               CUstream stream, int index) {
  const GpuTensor tensor(memory.data(), count, index);
  const rueda_op_options options = on_stream(name, stream);
  rueda_handle handle = 0;
  expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle), RUEDA_OK,
              std::string("enqueue ") + name);
  return handle;
}

inline void expect_done(rueda_handle handle, const std::string& what) {
  const Ending ending = finish(handle);
  expect(ending.code == RUEDA_OK, what + ": " + ending.sentence);
}

}  // namespace rueda::test
