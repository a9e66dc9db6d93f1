// What the stand-in knows: failures to make, captures, contexts, pinned memory.
#include "tests/support/cuda/state.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rueda::test {
namespace {

/// So many calls after the end are a loop that waits for what does not come.
constexpr int kCallsOfLoop = 100;

constexpr uintptr_t kElsewhere = uintptr_t{1} << 62;

std::atomic<bool> in_child{false};

bool blocking() {
  static const bool wanted = [] {
    const char* text = std::getenv("CUDA_LAUNCH_BLOCKING");
    return text != nullptr && std::string_view(text) == "1";
  }();
  return wanted;
}

}  // namespace

thread_local bool in_host_function = false;
thread_local std::vector<int> context_stack;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void* on_host(CUdeviceptr memory) { return reinterpret_cast<void*>(memory & ~kElsewhere); }
CUdeviceptr on_device(void* memory) { return reinterpret_cast<uintptr_t>(memory) | kElsewhere; }
bool is_on_device(CUdeviceptr memory) { return (memory & kElsewhere) != 0; }

/// Never ended: its streams' threads may still run at exit.
State& State::one() {
  static auto* const state = [] {
    ::pthread_atfork(nullptr, nullptr, [] { in_child.store(true); });
    return new State;
  }();
  return *state;
}

/// Before the handlers that were set before the first context, as CUDA's own.
void State::end_at_exit() {
  static const bool wanted = number("STANDIN_CUDA_ENDS_AT_EXIT", 0) != 0;
  if (!wanted) return;
  static const int set = std::atexit([] { one().ended_.store(true); });
  static_cast<void>(set);
}

CUresult State::call_after_end() {
  if (calls_after_end_.fetch_add(1) == kCallsOfLoop) {
    std::fputs("stand-in for the driver: called again and again after its end\n", stderr);
  }
  return CUDA_ERROR_DEINITIALIZED;
}

CUresult State::begin(const char* function) {
  if (has_ended()) return call_after_end();
  if (in_child.load()) {
    ++counts.calls_after_fork;  // no other thread is in a forked child, and the mutex may be held there for ever
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  const std::lock_guard lock(mutex);
  if (in_host_function) {
    ++counts.calls_in_host_functions;
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (const auto fault = sticky.find(current_device()); fault != sticky.end()) return fault->second;
  const auto failing = failures.find(function);
  if (failing == failures.end() || --failing->second.first > 0) return CUDA_SUCCESS;
  if (sticky_wanted) sticky[current_device()] = failing->second.second;
  return failing->second.second;
}

CUresult State::forbidden_in_capture() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  const std::lock_guard lock(mutex);
  CUresult result = CUDA_SUCCESS;
  for (auto& [stream, capture] : captures) {
    const bool mine = capture.thread == std::this_thread::get_id();
    const bool forbids = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL
                             ? thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL || mine
                             : capture.mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL && mine;
    if (!forbids) continue;
    capture.spoilt = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

int State::current_device() { return context_stack.empty() ? -1 : context_stack.back(); }

bool State::record(CUstream stream) {
  const std::lock_guard lock(mutex);
  const auto capture = captures.find(stream);
  if (capture == captures.end()) return false;
  ++capture->second.recorded;
  return true;
}

CUresult State::put(CUstream handle, std::function<void()> work) {
  if (current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (record(handle)) return CUDA_SUCCESS;
  const std::shared_ptr<Stream> stream = streams.find(handle, current_device());
  if (stream == nullptr) {
    const std::lock_guard lock(mutex);
    ++counts.uses_of_dead_streams;
    return CUDA_ERROR_INVALID_HANDLE;
  }
  streams.put(stream, std::move(work));
  if (blocking()) stream->point()->await();
  return CUDA_SUCCESS;
}

void State::await_idle(int device) {
  for (const auto& point : streams.all_of(device)) point->await();
}

void State::await_idle_if(const char* variable) {
  if (number(variable, 0) != 0) await_idle(current_device());
}

void State::pass_copy(int device) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return held_copies.count(device) == 0; });
}

/// Of the legacy stream the answer is an error while a stream that waits for it records.
CUresult State::is_capturing(CUstream handle, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  const std::shared_ptr<Stream> stream = streams.find(handle, std::max(0, current_device()));
  const std::lock_guard lock(mutex);
  if (stream == nullptr) {
    ++counts.uses_of_dead_streams;
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (const auto capture = captures.find(handle); capture != captures.end()) {
    *status = capture->second.spoilt ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
  }
  const bool legacy = handle == nullptr || handle == CU_STREAM_LEGACY;
  return legacy && !captures.empty() ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

}  // namespace rueda::test
