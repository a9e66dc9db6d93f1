// A GPU's part of the plug-in's state. The primary context is retained at the first tensor and never released: a
// framework may end its own use of it at any time, and a release at exit would race with the driver's own end.
//
// Streams are non-blocking, so that the legacy stream of a program does not wait for them; those for copies have the
// highest priority, so that a copy that is due does not queue behind kernels.
#include "ops/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ops/cuda/pack_image.h"

namespace rueda::cuda {

Result<std::unique_ptr<Device>> Device::make(const Driver& driver, int index) {
  int count = 0;
  CUdevice device{};
  CUresult result = driver.device_count(&count);
  if (result == CUDA_SUCCESS && (index < 0 || index >= count)) {
    return Status(Code::kSystem, fmt::format("there is no GPU {}; this process sees {}", index, count));
  }
  const char* call = "cuDeviceGet";
  if (result == CUDA_SUCCESS) result = driver.device(&device, index);
  CUcontext context = nullptr;
  if (result == CUDA_SUCCESS) {
    call = "cuDevicePrimaryCtxRetain";
    result = driver.retain_context(&context, device);
  }
  if (result != CUDA_SUCCESS) return Status(Code::kSystem, failure_of(driver, call, result));
  std::unique_ptr<Device> made(new Device(driver, device, context));
  int pools = 0;
  made->has_pools_ =
      driver.device_attribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) == CUDA_SUCCESS && pools != 0;
  RUEDA_RETURN_IF_ERROR(made->make_streams());
  return made;
}

Status Device::uuid(std::array<char, 16>& id) const {
  CUuuid found{};
  const CUresult result = driver_.device_uuid(&found, number_);
  if (result != CUDA_SUCCESS) return {Code::kSystem, failure_of(driver_, "cuDeviceGetUuid", result)};
  std::copy(std::begin(found.bytes), std::end(found.bytes), id.begin());
  return {};
}

Status Device::make_streams() {
  const Current current(*this);
  if (current.result() != CUDA_SUCCESS) {
    return {Code::kSystem, failure_of(driver_, "cuCtxPushCurrent", current.result())};
  }
  for (CUstream* stream : {&engine_[0], &engine_[1], &notices_[0], &notices_[1]}) {
    const CUresult result = make_stream(*stream);
    if (result != CUDA_SUCCESS) return {Code::kSystem, failure_of(driver_, "cuStreamCreateWithPriority", result)};
  }
  return {};
}

CUresult Device::make_stream(CUstream& stream) const {
  int least = 0;
  int highest = 0;
  static_cast<void>(driver_.priority_range(&least, &highest));  // without priorities both stay 0
  return driver_.create_stream(&stream, CU_STREAM_NON_BLOCKING, highest);
}

Result<CUstream> Device::take_stream() {
  const std::lock_guard lock(mutex_);
  if (!unused_streams_.empty()) {
    CUstream stream = unused_streams_.back();
    unused_streams_.pop_back();
    return stream;
  }
  const Current current(*this);
  CUstream made{};
  const CUresult result = current.result() == CUDA_SUCCESS ? make_stream(made) : current.result();
  if (result != CUDA_SUCCESS) return Status(Code::kSystem, failure_of(driver_, "cuStreamCreateWithPriority", result));
  return made;
}

void Device::give_stream(CUstream stream) {
  const std::lock_guard lock(mutex_);
  unused_streams_.push_back(stream);
}

Result<const Kernels*> Device::kernels() {
  const std::lock_guard lock(loading_);
  if (kernels_ == nullptr) {
    Result<std::unique_ptr<Kernels>> loaded = Kernels::load(*this, pack_image());
    if (!loaded.ok()) return loaded.status();
    kernels_ = std::move(loaded).value();
  }
  return kernels_.get();
}

Mark* Device::take_mark(MarkKind kind, std::string& why) {
  std::vector<Mark*>& unused = unused_[static_cast<size_t>(kind)];
  {
    const std::lock_guard lock(mutex_);
    if (!unused.empty()) {
      Mark* const mark = unused.back();
      unused.pop_back();
      return mark;
    }
  }
  CUevent event{};
  const unsigned flags = kind == MarkKind::kPlain ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT;
  const CUresult result = driver_.create_event(&event, flags);
  if (result != CUDA_SUCCESS) {
    why = failure_of(driver_, "cuEventCreate", result);
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  marks_.push_back(std::make_unique<Mark>(Mark{event, this, kind, nullptr}));
  unused.reserve(marks_.size());  // giving one back allocates nothing
  return marks_.back().get();
}

/// A wait for the event that is in a stream already stays what it was when the event is recorded anew.
void Device::give_mark(Mark* mark) {
  mark->anchor = nullptr;  // without the mutex: the last one gives the anchor's own mark back
  const std::lock_guard lock(mutex_);
  unused_[static_cast<size_t>(mark->kind)].push_back(mark);
}

bool Device::cuda_has_ended() const { return Current(*this).result() == CUDA_ERROR_DEINITIALIZED; }

/// First the mode: pushing a context is a call that would spoil another thread's capture in the strictest mode.
Current::Current(const Device& device) : driver_(device.driver()) {
  static_cast<void>(driver_.exchange_capture_mode(&mode_));
  result_ = driver_.push_context(device.context());
}

Current::~Current() {
  CUcontext popped = nullptr;
  if (result_ == CUDA_SUCCESS) static_cast<void>(driver_.pop_context(&popped));
  static_cast<void>(driver_.exchange_capture_mode(&mode_));
}

}  // namespace rueda::cuda
