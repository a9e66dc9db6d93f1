// The test's side of the stand-in.
#include <cstdlib>

#include "tests/support/cuda/state.h"

namespace rueda::test {
namespace {

/// With one SM a kernel runs when the one before it has ended, whatever their streams.
std::mutex& sm_of(int device) {
  static std::mutex all[16];
  return all[device % 16];
}

bool one_sm() {
  static const bool wanted = std::getenv("STANDIN_CUDA_ONE_SM") != nullptr;
  return wanted;
}

class Control : public StandinCuda {
 public:
  CUstream make_stream(int device, unsigned flags) override {
    return state_.streams.make(device, (flags & CU_STREAM_NON_BLOCKING) == 0);
  }
  void end_stream(CUstream stream) override { state_.streams.destroy(stream); }
  void* allocate(size_t bytes) override {
    return reinterpret_cast<void*>(on_device(std::aligned_alloc(512, (bytes + 511) / 512 * 512 + 512)));
  }
  void release(void* memory) override { std::free(on_host(reinterpret_cast<CUdeviceptr>(memory))); }
  void launch(CUstream stream, std::function<void()> kernel) override {
    const auto found = state_.streams.find(stream, 0);
    state_.streams.put(found, [device = found->device(), work = std::move(kernel)] {
      if (!one_sm()) return work();
      const std::lock_guard lock(sm_of(device));
      work();
    });
  }
  void drain(CUstream stream) override { state_.streams.find(stream, 0)->point()->await(); }
  void* in_kernel(const void* memory) override { return on_host(reinterpret_cast<CUdeviceptr>(memory)); }
  int current_device() override { return State::current_device(); }
  void use_device(int device) override { context_stack.push_back(device); }
  StandinCounts counts() override {
    const std::lock_guard lock(state_.mutex);
    return state_.counts;
  }
  bool has_ended() override { return state_.has_ended(); }
  int contexts_of(int device) override {
    const std::lock_guard lock(state_.mutex);
    return state_.contexts[device];
  }
  void fail(const std::string& function, int after, CUresult error, bool sticky) override {
    const std::lock_guard lock(state_.mutex);
    state_.failures[function] = {after, error};
    state_.sticky_wanted = sticky;
  }
  void heal() override {
    const std::lock_guard lock(state_.mutex);
    state_.failures.clear();
    state_.sticky_wanted = false;
    state_.sticky.clear();
  }
  void hold_copies(int device) override {
    const std::lock_guard lock(state_.mutex);
    state_.held_copies.insert(device);
  }
  void let_copies_go(int device) override {
    const std::lock_guard lock(state_.mutex);
    state_.held_copies.erase(device);
    state_.changed.notify_all();
  }
  void skip_time(std::chrono::nanoseconds time) override { skip_gpu_time(time.count()); }
  void begin_capture(CUstream stream, CUstreamCaptureMode mode) override {
    const std::lock_guard lock(state_.mutex);
    state_.captures[stream] = {mode, std::this_thread::get_id()};
  }
  int end_capture(CUstream stream) override {
    const std::lock_guard lock(state_.mutex);
    const Capture capture = state_.captures.at(stream);
    state_.captures.erase(stream);
    return capture.spoilt ? -1 : capture.recorded;
  }

 private:
  State& state_ = State::one();
};

}  // namespace
}  // namespace rueda::test

extern "C" __attribute__((visibility("default"))) rueda::test::StandinCuda* rueda_standin_cuda() {
  static auto* const one = new rueda::test::Control;
  return one;
}

// The same for programs that know neither C++ nor cuda.h: the device of PyTorch in tests/python/distributed/programs.
extern "C" {
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void* rueda_standin_memory(size_t bytes) { return rueda_standin_cuda()->allocate(bytes); }
EXPORTED void* rueda_standin_stream(int device) {
  return rueda_standin_cuda()->make_stream(device, CU_STREAM_NON_BLOCKING);
}
EXPORTED void rueda_standin_put(void* stream, void (*work)(void*), void* argument) {
  rueda_standin_cuda()->launch(static_cast<CUstream>(stream), [work, argument] { work(argument); });
}
}
