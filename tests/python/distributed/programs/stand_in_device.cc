// PyTorch's spare device, PrivateUse1, as one that behaves like a GPU where mistakes show, on a host that has none:
//   * no address of its memory can be read on the host: to touch one ends the process;
//   * what is put into its streams happens only when somebody waits for that stream, so a reader that does not wait
//     reads what was there before.
// Operations run on the host, on copies. stand_in_device.py loads it.

#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_copy_from.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace {

using at::Device;
using at::Tensor;
using c10::DeviceIndex;
using c10::Stream;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr DeviceIndex kDevices = 4;
// Of the addresses that users see: the processor has none of that form.
constexpr std::uintptr_t kElsewhere = std::uintptr_t{1} << 62;

void* moved(const void* address) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(address) ^ kElsewhere);
}

// ---- Streams

// What one stream still has to do. Positions count from the stream's beginning.
struct Queue {
  std::deque<std::function<void()>> waiting;
  std::uint64_t done = 0;
};

Stream stream_of(DeviceIndex index, c10::StreamId id) { return Stream(Stream::UNSAFE, Device(kDevice, index), id); }

struct Event {
  Stream stream;
  std::uint64_t position;
};

// One for all devices and threads. It can be taken again by what a stream does.
std::recursive_mutex device_mutex;

Queue& queue_of(const Stream& stream) {
  static auto* queues = new std::map<std::pair<DeviceIndex, c10::StreamId>, Queue>;
  return (*queues)[{stream.device_index(), stream.id()}];
}

std::uint64_t end_of(const Queue& queue) { return queue.done + queue.waiting.size(); }

void run_until(Queue& queue, std::uint64_t position) {
  while (queue.done < position) {
    const auto step = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    queue.done += 1;
    step();
  }
}

void run_all(const Stream& stream) {
  Queue& queue = queue_of(stream);
  run_until(queue, end_of(queue));
}

thread_local DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, kDevices> current_streams{};

Stream current_stream(Device device) {
  const DeviceIndex index = device.has_index() ? device.index() : current_device;
  return stream_of(index, current_streams[static_cast<std::size_t>(index)]);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return {kDevice, current_device}; }
  void setDevice(Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(Device device) const noexcept override {
    if (device.has_index()) {
      current_device = device.index();
    }
  }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }

  Stream getStream(Device device) const override { return current_stream(device); }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getNewStream(device, 0); }
  Stream getNewStream(Device device, int) const override {
    const std::lock_guard lock(device_mutex);
    static c10::StreamId last = 0;
    return stream_of(device.has_index() ? device.index() : current_device, ++last);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = current_stream(stream.device());
    current_streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  bool queryStream(const Stream& stream) const override {
    const std::lock_guard lock(device_mutex);
    return queue_of(stream).waiting.empty();
  }
  void synchronizeStream(const Stream& stream) const override {
    const std::lock_guard lock(device_mutex);
    run_all(stream);
  }
  void synchronizeDevice(DeviceIndex index) const override {
    const std::lock_guard lock(device_mutex);
    for (c10::StreamId id = getNewStream(Device(kDevice, index), 0).id(); id >= 0; --id) {
      run_all(stream_of(index, id));
    }
  }

  void record(void** event, const Stream& stream, DeviceIndex, c10::EventFlag) const override {
    const std::lock_guard lock(device_mutex);
    delete static_cast<Event*>(*event);
    *event = new Event{stream, end_of(queue_of(stream))};
  }
  void block(void* event, const Stream& stream) const override {
    if (event == nullptr) {
      return;
    }
    const std::lock_guard lock(device_mutex);
    queue_of(stream).waiting.push_back(
        [until = *static_cast<Event*>(event)] { run_until(queue_of(until.stream), until.position); });
  }
  bool queryEvent(void* event) const override {
    const std::lock_guard lock(device_mutex);
    const auto* known = static_cast<Event*>(event);
    return known == nullptr || queue_of(known->stream).done >= known->position;
  }
  void synchronizeEvent(void* event) const override {
    const std::lock_guard lock(device_mutex);
    const auto* known = static_cast<Event*>(event);
    if (known != nullptr) {
      run_until(queue_of(known->stream), known->position);
    }
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete static_cast<Event*>(event); }
};

// ---- Memory

void give_back(void* memory) { std::free(memory); }

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = bytes == 0 ? nullptr : std::calloc(bytes, 1);
    return {memory == nullptr ? nullptr : moved(memory), memory, give_back, Device(kDevice, current_device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(moved(target), moved(source), bytes);
  }
};

Memory* memory() {
  static auto* made = new Memory;
  return made;
}

// Which streams use a storage beside the one in which it was made, as users tell it.
std::multimap<const c10::StorageImpl*, Stream>& other_users() {
  static auto* users = new std::multimap<const c10::StorageImpl*, Stream>;
  return *users;
}

void record_stream(Tensor& tensor, Stream stream) {
  const std::lock_guard lock(device_mutex);
  other_users().emplace(tensor.storage().unsafeGetStorageImpl(), stream);
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(DeviceIndex index) const override { current_device = index; }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  DeviceIndex exchangeDevice(DeviceIndex index) const override { return std::exchange(current_device, index); }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override { return exchangeDevice(index); }
  const at::Generator& getDefaultGenerator(DeviceIndex) const override {
    return at::globalContext().defaultGenerator(at::kCPU);
  }
  Device getDeviceFromPtr(void*) const override { return {kDevice, current_device}; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    const std::lock_guard lock(device_mutex);
    run_all(current_stream(storage.device()));
    const auto [first, last] = other_users().equal_range(storage.unsafeGetStorageImpl());
    for (auto user = first; user != last; ++user) {
      run_all(user->second);
    }
    other_users().erase(first, last);
    c10::DataPtr resized = memory()->allocate(bytes);
    const std::size_t kept = std::min(bytes, storage.nbytes());
    if (kept != 0) {
      memory()->copy_data(resized.get(), storage.data(), kept);
    }
    storage.set_data_ptr_noswap(std::move(resized));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

// ---- Operations

// The tensor's numbers as a tensor of the host. It does not keep the memory.
Tensor numbers_of(const Tensor& tensor) {
  if (!tensor.is_privateuseone()) {
    return tensor;
  }
  if (tensor.numel() == 0) {
    return at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  }
  return at::from_blob(moved(tensor.data_ptr()), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

// Set while an operation of the device runs, whose results are put into a stream.
thread_local bool in_operation = false;

// What is put into the current stream; to read the device, and to fill it from the host, also waits for that, as
// PyTorch's own devices do unless they are asked not to block.
Tensor copy_from(const Tensor& source, const Tensor& target, bool non_blocking) {
  const std::lock_guard lock(device_mutex);
  const at::AutoDispatchBelowAutograd without_autograd;
  if (!target.is_privateuseone()) {
    run_all(current_stream(source.device()));
    target.copy_(numbers_of(source));
    return target;
  }
  const Tensor read = source.is_privateuseone() ? source : source.clone();
  queue_of(current_stream(target.device()))
      .waiting.push_back([read, source_storage = read.storage(), target, storage = target.storage()] {
        const at::AutoDispatchBelowAutograd without;
        numbers_of(target).copy_(numbers_of(read));
      });
  if (source.is_cpu() && !non_blocking && !in_operation) {
    run_all(current_stream(target.device()));
  }
  return target;
}

Tensor copy_from_and_resize(const Tensor& source, const Tensor& target) {
  if (target.sizes() != source.sizes()) {
    target.resize_(source.sizes());
  }
  return copy_from(source, target, false);
}

Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
             std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(sizes, memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                     std::optional<at::Layout>, std::optional<Device> device, std::optional<bool>) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(sizes, strides, memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

const Tensor& resize(const Tensor& tensor, c10::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  const auto bytes = at::detail::computeStorageNbytesContiguous(sizes, tensor.itemsize(),
                                                                static_cast<std::size_t>(tensor.storage_offset()));
  if (bytes > tensor.storage().nbytes()) {
    at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor.storage(), bytes);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Scalar number_of(const Tensor& tensor) { return tensor.cpu().item(); }

Tensor& set_storage(Tensor& tensor, c10::Storage storage, std::int64_t offset, c10::IntArrayRef sizes,
                    c10::IntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  if (strides.data() == nullptr) {
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  } else {
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  }
  return tensor;
}

Tensor& set_whole_storage(Tensor& tensor, c10::Storage storage) {
  const auto elements = static_cast<std::int64_t>(storage.nbytes() / tensor.itemsize());
  return set_storage(tensor, std::move(storage), 0, {elements}, {1});
}

void by_the_host(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const bool within = std::exchange(in_operation, true);
  at::native::cpu_fallback(operation, stack);
  in_operation = within;
}

}  // namespace

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
REGISTER_ALLOCATOR(kDevice, memory())

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&by_the_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &resize);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &number_of);
  library.impl("record_stream", &record_stream);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_.source_Storage", &set_whole_storage);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
}

static const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();
