// The driver's functions, as cuda.h declares them.
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "tests/support/cuda/state.h"

#undef cuEventElapsedTime  // the plug-in takes the name that older drivers have as well

using rueda::test::context_stack;
using rueda::test::Event;
using rueda::test::in_host_function;
using rueda::test::is_on_device;
using rueda::test::number;
using rueda::test::on_device;
using rueda::test::on_host;
using rueda::test::Point;
using rueda::test::State;
using rueda::test::thread_mode;

namespace {

int devices() {
  static const int count = number("STANDIN_CUDA_DEVICES", 2);
  return count;
}

/// A context is the number of its device, from 1.
CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(static_cast<intptr_t>(device) + 1); }

Event& event_of(CUevent event) { return *reinterpret_cast<Event*>(event); }

std::shared_ptr<Point> point_of(CUevent event) {
  const std::lock_guard lock(event_of(event).mutex);
  return event_of(event).point;
}

/// Runs `call` unless the stand-in has to fail the function.
template <typename Call>
CUresult guarded(const char* function, Call&& call) {
  const CUresult result = State::one().begin(function);
  return result == CUDA_SUCCESS ? call(State::one()) : result;
}

void count(int rueda::test::StandinCounts::*which, int by = 1) {
  const std::lock_guard lock(State::one().mutex);
  State::one().counts.*which += by;
}

/// The host's side of a copy has to be pinned, or the driver would let the calling thread wait.
bool is_pinned(State& state, CUdeviceptr memory, size_t bytes) {
  const std::lock_guard lock(state.mutex);
  auto after = state.pinned.upper_bound(memory);
  if (after == state.pinned.begin()) return false;
  --after;
  return memory + bytes <= after->first + after->second;
}

/// Name and text of an error, as the driver has them for those that tests look at.
std::pair<const char*, const char*> known_error(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS: return {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"};
    case CUDA_ERROR_OUT_OF_MEMORY: return {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"};
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED:
      return {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"};
    default: return {"CUDA_ERROR_OF_STAND_IN", "an error of the stand-in"};
  }
}

void* pages(size_t bytes) { return std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096 + 4096); }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's own names
extern "C" {
#pragma GCC visibility push(default)

CUresult cuInit(unsigned) {
  return guarded("cuInit", [](State&) {
    return number("STANDIN_CUDA_BROKEN", 0) == 0 ? CUDA_SUCCESS : CUDA_ERROR_SYSTEM_NOT_READY;
  });
}
CUresult cuDriverGetVersion(int* version) {
  *version = number("STANDIN_CUDA_VERSION", 13000);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* found) {
  *found = devices();
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return index < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int capacity, CUdevice) {
  std::snprintf(name, static_cast<size_t>(capacity), "stand-in GPU");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0xA0 + device, sizeof uuid->bytes);
  char name[HOST_NAME_MAX + 1] = {};
  static_cast<void>(::gethostname(name, sizeof name));  // GPUs of two hosts are two
  const uint64_t host = std::hash<std::string_view>()(name);
  std::memcpy(uuid->bytes + sizeof uuid->bytes - sizeof host, &host, sizeof host);
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  *bytes = size_t{80} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = 0;
  if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) *value = number("STANDIN_CUDA_POOLS", 1);
  if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *value = 2;
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *value = 9;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return guarded("cuDevicePrimaryCtxRetain", [&](State& state) {
    state.end_at_exit();
    const std::lock_guard lock(state.mutex);
    ++state.counts.contexts;
    ++state.contexts[device];
    *context = context_of(device);
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return guarded("cuCtxPushCurrent", [&](State&) {
    context_stack.push_back(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
    return CUDA_SUCCESS;
  });
}
CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = context_of(context_stack.back());
  context_stack.pop_back();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int) {
  return guarded("cuStreamCreateWithPriority", [&](State& state) {
    if (State::current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    *stream = state.streams.make(State::current_device(), (flags & CU_STREAM_NON_BLOCKING) == 0);
    return CUDA_SUCCESS;
  });
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  return State::one().streams.destroy(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  return guarded("cuStreamIsCapturing", [&](State& state) { return state.is_capturing(stream, status); });
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  return guarded("cuStreamWaitEvent", [&](State& state) {
    const std::shared_ptr<Point> point = point_of(event);
    if (point == nullptr) return CUDA_SUCCESS;  // never recorded
    return state.put(stream, [point] { point->await(); });
  });
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  return guarded("cuLaunchHostFunc", [&](State& state) {
    return state.put(stream, [function, argument] {
      in_host_function = true;
      function(argument);
      in_host_function = false;
    });
  });
}

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  return guarded("cuEventCreate", [&](State&) {
    const bool timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    count(&rueda::test::StandinCounts::events_alive);
    *event = reinterpret_cast<CUevent>(new Event(timed));
    return CUDA_SUCCESS;
  });
}
CUresult cuEventDestroy_v2(CUevent event) {
  count(&rueda::test::StandinCounts::events_alive, -1);
  delete &event_of(event);
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  return guarded("cuEventRecord", [&](State& state) {
    if (event_of(event).timed) count(&rueda::test::StandinCounts::timed_marks);
    auto point = std::make_shared<Point>();
    {
      const std::lock_guard lock(event_of(event).mutex);
      event_of(event).point = point;
    }
    return state.put(stream, [point] { point->pass(); });
  });
}
CUresult cuEventQuery(CUevent event) {
  return guarded("cuEventQuery", [&](State& state) {
    if (const CUresult spoilt = state.forbidden_in_capture(); spoilt != CUDA_SUCCESS) return spoilt;
    const std::shared_ptr<Point> point = point_of(event);
    return point == nullptr || point->passed() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  return guarded("cuEventElapsedTime", [&](State&) {
    const std::shared_ptr<Point> first = point_of(from);
    const std::shared_ptr<Point> last = point_of(to);
    if (!event_of(from).timed || !event_of(to).timed || first == nullptr || last == nullptr) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!first->passed() || !last->passed()) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(static_cast<double>(last->time() - first->time()) / 1e6);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* memory, size_t bytes) {
  return guarded("cuMemAlloc", [&](State& state) {
    if (State::current_device() < 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (const CUresult spoilt = state.forbidden_in_capture(); spoilt != CUDA_SUCCESS) return spoilt;
    state.await_idle_if("STANDIN_CUDA_ALLOC_WAITS");
    count(&rueda::test::StandinCounts::allocations);
    *memory = on_device(pages(bytes));
    return CUDA_SUCCESS;
  });
}
CUresult cuMemFree_v2(CUdeviceptr memory) {
  return guarded("cuMemFree", [&](State& state) {
    if (const CUresult spoilt = state.forbidden_in_capture(); spoilt != CUDA_SUCCESS) return spoilt;
    count(&rueda::test::StandinCounts::frees);
    state.await_idle(State::current_device());
    std::free(on_host(memory));
    return CUDA_SUCCESS;
  });
}
CUresult cuMemAllocAsync(CUdeviceptr* memory, size_t bytes, CUstream stream) {
  return guarded("cuMemAllocAsync", [&](State& state) {
    count(&rueda::test::StandinCounts::allocations);
    *memory = on_device(pages(bytes));
    return state.put(stream, [] {});
  });
}
CUresult cuMemFreeAsync(CUdeviceptr memory, CUstream stream) {
  return guarded("cuMemFreeAsync", [&](State& state) {
    count(&rueda::test::StandinCounts::frees);
    return state.put(stream, [memory] { std::free(on_host(memory)); });
  });
}
CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  return guarded("cuMemHostAlloc", [&](State& state) {
    if (const CUresult spoilt = state.forbidden_in_capture(); spoilt != CUDA_SUCCESS) return spoilt;
    state.await_idle_if("STANDIN_CUDA_ALLOC_WAITS");
    *memory = pages(bytes);
    const std::lock_guard lock(state.mutex);
    ++state.counts.allocations;
    state.pinned.emplace(reinterpret_cast<uintptr_t>(*memory), bytes);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemFreeHost(void* memory) {
  return guarded("cuMemFreeHost", [&](State& state) {
    if (const CUresult spoilt = state.forbidden_in_capture(); spoilt != CUDA_SUCCESS) return spoilt;
    {
      const std::lock_guard lock(state.mutex);
      ++state.counts.frees;
      const auto known = state.pinned.find(reinterpret_cast<uintptr_t>(memory));
      if (known == state.pinned.end()) return CUDA_ERROR_INVALID_VALUE;
      std::memset(memory, 0x5a, known->second);
      state.pinned.erase(known);
    }
    std::free(memory);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return guarded("cuMemcpyAsync", [&](State& state) {
    for (const CUdeviceptr side : {to, from}) {
      if (is_on_device(side) || is_pinned(state, side, bytes)) continue;
      count(&rueda::test::StandinCounts::pageable_copies);
      return CUDA_ERROR_INVALID_VALUE;
    }
    count(&rueda::test::StandinCounts::copies);
    return state.put(stream, [=, &state, device = State::current_device()] {
      if (!is_on_device(from)) state.pass_copy(device);
      std::memcpy(on_host(to), on_host(from), bytes);
    });
  });
}
CUresult cuGetErrorName(CUresult result, const char** name) {
  *name = known_error(result).first;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult result, const char** text) {
  *text = known_error(result).second;
  return CUDA_SUCCESS;
}

#pragma GCC visibility pop
}
// NOLINTEND(readability-identifier-naming)
