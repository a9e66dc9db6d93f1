#pragma once
#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace rueda::test {

/// What a process has asked of the stand-in. Sums over all devices.
struct StandinCounts {
  int contexts = 0;     ///< made
  int allocations = 0;  ///< of memory, on devices and pinned
  int frees = 0;        ///< of memory
  int events_alive = 0;
  int timed_marks = 0;  ///< records of events whose time can be asked for
  int copies = 0;
  int kernels = 0;                  ///< launched
  int loads = 0;                    ///< of kernels, by cuFuncLoad
  int wrong_kernels = 0;            ///< refused or not run: a wrong grid, wrong pieces, memory of the host's
  int calls_in_host_functions = 0;  ///< refused, as the driver refuses them
  int calls_after_fork = 0;         ///< in this process, if it is a child
  int uses_of_dead_streams = 0;
  int pageable_copies = 0;  ///< refused: the driver would let the host wait
};

/// The test's side of a libcuda.so.1 that needs no GPU. The plug-in is told of it by RUEDA_CUDA_LIBRARY and runs as it
/// is.
///
/// Memory of a device is the host's at addresses that no host code can follow. A stream is a thread. Work goes through
/// it later, after a delay by seed, so that what nothing orders shows. Variables, read at the first call:
///
///   STANDIN_CUDA_DEVICES   how many GPUs there are (2)
///   STANDIN_CUDA_DELAY_US  the longest delay before each piece of a stream's work (0)
///   STANDIN_CUDA_SEED      decides the delays (1)
///   STANDIN_CUDA_POOLS     0: memory cannot be allocated in the order of a stream
///   STANDIN_CUDA_ONE_SM    1: a device has room for one kernel of NCCL's or of a test's at a time
///   STANDIN_CUDA_ALLOC_WAITS  1: cuMemAlloc and cuMemHostAlloc wait until their device is idle
///   STANDIN_CUDA_LOAD_WAITS   1: to load a module or a kernel waits until its device is idle
///   STANDIN_CUDA_NO_KERNELS  1: it finds no kernels for its GPUs in any image
///   STANDIN_CUDA_BROKEN    1: cuInit fails
///   STANDIN_CUDA_ENDS_AT_EXIT  1: an exit handler, which the first context sets, ends the driver: then each call gives
///                          CUDA_ERROR_DEINITIALIZED, and many of them are a line on stderr
///   STANDIN_CUDA_VERSION   what cuDriverGetVersion says (13000)
///   CUDA_LAUNCH_BLOCKING   1: each call that puts work into a stream waits for it, as with the driver
///
/// Kernels are those of the plug-in's .cu files, compiled for the host (tests/support/cuda/kernels.h). One that was not
/// loaded by cuFuncLoad is refused.
///
/// cuMemFree waits until its device is idle, as it may on a GPU. cuMemFreeHost, which may wait there too, does not, and
/// spoils what it frees. Any thread.
class StandinCuda {
 public:
  virtual ~StandinCuda() = default;
  /// A stream on the device, with the driver's flags, and its end, which does not wait for what is in it.
  virtual CUstream make_stream(int device, unsigned flags) = 0;
  virtual void end_stream(CUstream stream) = 0;
  /// Memory of a device, and its end.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) = 0;
  /// Puts a kernel into the stream.
  virtual void launch(CUstream stream, std::function<void()> kernel) = 0;
  /// Blocks until everything in the stream has run.
  virtual void drain(CUstream stream) = 0;
  /// The host's address of a device's memory, for kernels.
  virtual void* in_kernel(const void* memory) = 0;
  /// The device whose context is current on this thread; -1 if there is none.
  virtual int current_device() = 0;
  /// Makes the device current on this thread for good.
  virtual void use_device(int device) = 0;
  virtual StandinCounts counts() = 0;
  /// Whether the process's exit has ended the driver.
  virtual bool has_ended() = 0;
  /// Contexts that were made on the device.
  virtual int contexts_of(int device) = 0;
  /// From its `after`-th call from now on the function fails with `error`; with `sticky` every later call of any
  /// function on that device does, as after a fault in a kernel.
  virtual void fail(const std::string& function, int after, CUresult error, bool sticky) = 0;
  /// Ends `fail`.
  virtual void heal() = 0;
  /// Copies from the host to the device wait in their streams, and what is behind them, until `let_copies_go`.
  virtual void hold_copies(int device) = 0;
  virtual void let_copies_go(int device) = 0;
  /// The clock of all GPUs moves on.
  virtual void skip_time(std::chrono::nanoseconds time) = 0;
  /// Makes a stream that records instead of running, and what it has recorded.
  virtual void begin_capture(CUstream stream, CUstreamCaptureMode mode) = 0;
  /// Returns the number of things recorded, or -1 if the capture was spoilt.
  virtual int end_capture(CUstream stream) = 0;
};

}  // namespace rueda::test

/// The stand-in's own function, beside the driver's.
extern "C" rueda::test::StandinCuda* rueda_standin_cuda();
