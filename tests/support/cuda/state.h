#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/cuda/standin.h"
#include "tests/support/cuda/streams.h"

namespace rueda::test {

/// A stream that records a graph.
struct Capture {
  CUstreamCaptureMode mode;
  std::thread::id thread;
  int recorded = 0;
  bool spoilt = false;
};

/// An event. A wait keeps the point that it saw, also when the event is recorded anew.
struct Event {
  explicit Event(bool has_time) : timed(has_time) {}
  const bool timed;  ///< its time can be asked for
  std::mutex mutex;
  std::shared_ptr<Point> point;
};

/// All that the stand-in's functions share. One for the process; any thread.
class State {
 public:
  static State& one();

  /// Each function of the driver begins with it: what the call has to return without doing anything, or CUDA_SUCCESS.
  CUresult begin(const char* function);
  /// Lets an exit handler end the driver if STANDIN_CUDA_ENDS_AT_EXIT is 1.
  void end_at_exit();
  bool has_ended() const { return ended_.load(); }
  /// For a call that a capture in the strictest mode forbids to all threads: spoils those captures.
  CUresult forbidden_in_capture();
  /// The device whose context is current on this thread; -1 if there is none.
  static int current_device();

  /// Puts work into a stream, or records it there, and waits if CUDA_LAUNCH_BLOCKING says so.
  CUresult put(CUstream stream, std::function<void()> work);
  /// Waits until all streams of the device have done what is in them.
  void await_idle(int device);
  /// The same for this thread's device if the variable of the environment is 1.
  void await_idle_if(const char* variable);
  CUresult is_capturing(CUstream stream, CUstreamCaptureStatus* status);
  /// Blocks while copies to the device are held.
  void pass_copy(int device);

  Streams streams;
  std::mutex mutex;
  std::condition_variable changed;
  StandinCounts counts;         ///< under the mutex, as all that follows
  std::map<int, int> contexts;  ///< by device
  std::map<CUstream, Capture> captures;
  std::map<uintptr_t, size_t> pinned;                        ///< begin and bytes
  std::map<std::string, std::pair<int, CUresult>> failures;  ///< calls left before it fails, and how
  std::set<int> held_copies;                                 ///< devices
  bool sticky_wanted = false;
  std::map<int, CUresult> sticky;  ///< by device

 private:
  bool record(CUstream stream);
  CUresult call_after_end();

  std::atomic<bool> ended_{false};
  std::atomic<int> calls_after_end_{0};
};

/// The host's address of a device's memory, and back. The processor has no addresses of the other form.
void* on_host(CUdeviceptr memory);
CUdeviceptr on_device(void* memory);
bool is_on_device(CUdeviceptr memory);

/// Set while a thread of a stream runs a function of the host's.
extern thread_local bool in_host_function;

/// The contexts that are current on this thread, the last one on top; as devices.
extern thread_local std::vector<int> context_stack;
extern thread_local CUstreamCaptureMode thread_mode;

}  // namespace rueda::test
