// The device's functions. Each finds its GPU, makes its context current for the call, calls the driver, and
// on failure keeps a sentence for `why` on the thread. In a forked child none of them calls CUDA: what is freed there
// stays with the parent.
#include "ops/cuda/device_functions.h"

#include <fmt/format.h>

#include <cstdio>

namespace rueda::cuda {
namespace {

using core::EngineStream;
using core::MarkAsker;

thread_local std::string reason;

int32_t fail(std::string why) {
  reason = std::move(why);
  return -1;
}

Devices& devices_of(void* context) { return *static_cast<Devices*>(context); }
Mark& mark_of(uint64_t token) { return *reinterpret_cast<Mark*>(token); }
CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }
CUdeviceptr address_of(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

/// Runs `call(device)` with the GPU's context. The call returns what the driver did; if it leaves a reason, that is the
/// failure's.
template <typename Call>
int32_t on(Device& device, const char* name, Call&& call) {
  if (forked()) return fail("CUDA does not work in a forked process");
  const Current current(device);
  if (current.result() != CUDA_SUCCESS) return fail(failure_of(device.driver(), "cuCtxPushCurrent", current.result()));
  reason.clear();
  const CUresult result = call(device);
  if (result == CUDA_SUCCESS) return 0;
  return reason.empty() ? fail(failure_of(device.driver(), name, result)) : -1;
}

template <typename Call>
int32_t on(void* context, int32_t index, const char* name, Call&& call) {
  const Result<Device*> device = devices_of(context).of(index);
  if (!device.ok()) return fail(device.status().sentence());
  return on(*device.value(), name, std::forward<Call>(call));
}

void why(void*, char* text, size_t capacity) { std::snprintf(text, capacity, "%s", reason.c_str()); }

int32_t describe(void* context, char* text, size_t capacity) {
  const Result<std::string> found = devices_of(context).describe();
  if (!found.ok()) return fail(found.status().sentence());
  std::snprintf(text, capacity, "%s", found.value().c_str());
  return 0;
}

/// A graph would record the mark and not the operation, so each replay would miss it. To ask the legacy stream while
/// another one records is an error of its own, which also leaves the recording as it is.
CUresult refuse_capture(Device& device, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult result = device.driver().stream_is_capturing(stream, &status);
  if (result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE) return CUDA_SUCCESS;
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    reason = failure_of(device.driver(), "cuStreamIsCapturing", result);
    return result;
  }
  reason =
      "a CUDA graph is being captured in this stream, and an operation cannot be part of a graph: enqueue it before or "
      "after the capture";
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult record(Device& device, MarkKind kind, void* stream, uint64_t* token) {
  Mark* const taken = device.take_mark(kind, reason);
  if (taken == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = device.driver().record_event(taken->event, stream_of(stream));
  if (result == CUDA_SUCCESS) {
    *token = reinterpret_cast<uint64_t>(taken);
  } else {
    device.give_mark(taken);
  }
  return result;
}

int32_t mark(void* context, int32_t index, void* stream, uint64_t* token) {
  *token = 0;
  return on(context, index, "cuEventRecord", [&](Device& device) {
    const CUresult refused = refuse_capture(device, stream_of(stream));
    return refused != CUDA_SUCCESS ? refused : record(device, MarkKind::kPlain, stream, token);
  });
}

/// In streams of the library's own, which record no graphs.
int32_t mark_time(void* context, int32_t index, void* stream, uint64_t* token) {
  *token = 0;
  return on(context, index, "cuEventRecord", [&](Device& device) {
    const std::shared_ptr<const ClockAnchor> anchor = device.clock().anchor(reason);
    if (anchor == nullptr) return CUDA_ERROR_NOT_READY;
    const CUresult result = record(device, MarkKind::kTimed, stream, token);
    if (result == CUDA_SUCCESS) mark_of(*token).anchor = anchor;
    return result;
  });
}

int32_t time_of(void*, uint64_t token, int64_t* nanoseconds) {
  return on(*mark_of(token).device, "cuEventElapsedTime",
            [&](Device& device) { return device.clock().time_of(mark_of(token), *nanoseconds); });
}

int32_t order_after(void*, int32_t, uint64_t token, void* stream) {
  if (token == 0) return 0;
  return on(*mark_of(token).device, "cuStreamWaitEvent", [&](Device& device) {
    return device.driver().stream_wait(stream_of(stream), mark_of(token).event, CU_EVENT_WAIT_DEFAULT);
  });
}

int32_t poll(void*, uint64_t token) {
  if (token == 0) return 1;
  bool passed = true;
  const int32_t failed = on(*mark_of(token).device, "cuEventQuery", [&](Device& device) {
    const CUresult result = device.driver().query_event(mark_of(token).event);
    passed = result != CUDA_ERROR_NOT_READY;
    return passed ? result : CUDA_SUCCESS;
  });
  return failed != 0 ? -1 : static_cast<int32_t>(passed);
}

/// In a stream of its own: a function on the host holds up what comes behind it in its stream. It calls no CUDA, which
/// would deadlock.
int32_t notify(void*, uint64_t token, MarkAsker asker, void (*passed)(void*), void* argument) {
  return on(*mark_of(token).device, "cuLaunchHostFunc", [&](Device& device) {
    const CUstream stream = device.notice_stream(asker);
    const CUresult waits = device.driver().stream_wait(stream, mark_of(token).event, CU_EVENT_WAIT_DEFAULT);
    return waits != CUDA_SUCCESS ? waits : device.driver().launch_host_function(stream, passed, argument);
  });
}

void free_token(void*, uint64_t token) {
  if (token != 0 && !forked()) mark_of(token).device->give_mark(&mark_of(token));
}

/// The handle of the per-thread stream means another stream on each thread.
int32_t shareable(void*, void* stream) { return stream_of(stream) == CU_STREAM_PER_THREAD ? 0 : 1; }

void* engine_stream(void* context, int32_t index, EngineStream which) {
  const Result<Device*> device = devices_of(context).of(index);
  if (device.ok()) return device.value()->engine_stream(which);
  static_cast<void>(fail(device.status().sentence()));
  return nullptr;
}

int32_t copy(void* context, int32_t index, void* to, const void* from, size_t bytes, void* stream) {
  return on(context, index, "cuMemcpyAsync", [&](Device& device) {
    return device.driver().copy(address_of(to), address_of(from), bytes, stream_of(stream));
  });
}

void* allocate(void* context, int32_t index, size_t bytes, void* stream) {
  CUdeviceptr memory = 0;
  static_cast<void>(on(context, index, "cuMemAlloc", [&](Device& device) {
    return device.has_pools() ? device.driver().allocate_async(&memory, bytes, stream_of(stream))
                              : device.driver().allocate(&memory, bytes);
  }));
  return reinterpret_cast<void*>(memory);
}

void release(void* context, int32_t index, void* memory, void* stream) {
  if (forked()) return;
  static_cast<void>(on(context, index, "cuMemFree", [&](Device& device) {
    return device.has_pools() ? device.driver().free_async(address_of(memory), stream_of(stream))
                              : device.driver().free(address_of(memory));
  }));
}

/// Portable: every GPU of the process may copy from it and to it.
void* allocate_pinned(void* context, int32_t index, size_t bytes) {
  void* memory = nullptr;
  const int32_t failed = on(context, index, "cuMemHostAlloc", [&](Device& device) {
    return device.driver().allocate_pinned(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE);
  });
  if (failed != 0) return nullptr;
  devices_of(context).host().account(static_cast<int64_t>(bytes));
  return memory;
}

void free_pinned(void* context, int32_t index, void* memory, size_t bytes) {
  if (forked()) return;
  const int32_t failed =
      on(context, index, "cuMemFreeHost", [&](Device& device) { return device.driver().free_pinned(memory); });
  if (failed == 0) devices_of(context).host().account(-static_cast<int64_t>(bytes));
}

}  // namespace

core::DeviceFunctions device_functions(Devices& devices) {
  return {.struct_size = sizeof(core::DeviceFunctions),
          .name = "cuda",
          .context = &devices,
          .kind = kCudaDevice,
          .why = why,
          .describe = describe,
          .mark = mark,
          .order_after = order_after,
          .poll = poll,
          .notify = notify,
          .free_token = free_token,
          .shareable = shareable,
          .engine_stream = engine_stream,
          .copy = copy,
          .allocate = allocate,
          .free = release,
          .allocate_pinned = allocate_pinned,
          .free_pinned = free_pinned,
          .mark_time = mark_time,
          .time_of = time_of};
}

}  // namespace rueda::cuda
