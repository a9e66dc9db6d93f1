#pragma once
#include <cstdint>
#include <functional>

namespace rueda::test {

/// The kind of memory that the test plug-in brings, as rueda_tensor.device.
inline constexpr int32_t kFakeDevice = 77;

/// How often the engine called what. Sums over all ranks of the process.
struct FakeDeviceCounts {
  int marks = 0;
  int orders = 0;
  int polls = 0;
  int polls_too_early = 0;  ///< of marks that were not passed yet
  int marks_alive = 0;      ///< made and not freed
  int memory_alive = 0;     ///< allocated and not freed
};

/// The test's side of the fake device: streams are queues that a thread works off, so what the test puts into one
/// decides when the marks behind it are passed. The engine has streams of its own in it. Memory is the host's. Any
/// thread.
class FakeDevice {
 public:
  virtual ~FakeDevice() = default;
  /// Ended, and waited for, by `end_stream`.
  virtual void* make_stream() = 0;
  virtual void end_stream(void* stream) = 0;
  /// Puts work into the stream; what comes behind it waits until it has returned.
  virtual void enqueue(void* stream, std::function<void()> work) = 0;
  /// Blocks until everything in the stream has run.
  virtual void drain(void* stream) = 0;
  /// The engine's own: 0 to the host, 1 from the host.
  virtual void* engine_stream(int which) = 0;
  virtual FakeDeviceCounts counts() = 0;
  /// Blocks until the engine has asked for a mark that was not passed `count` times.
  virtual void await_early_polls(int count) = 0;
};

}  // namespace rueda::test

/// The test plug-in's own function, beside `rueda_plugin`.
extern "C" rueda::test::FakeDevice* rueda_test_fake_device();
