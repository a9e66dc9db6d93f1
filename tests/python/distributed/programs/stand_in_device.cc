// PyTorch's spare device, PrivateUse1, as one that behaves like a GPU where mistakes show, on a host that has none:
//   * no address of its memory can be read on the host: to touch one ends the process;
//   * what is put into its streams happens later, so a reader that does not wait for a stream reads what was there
//   before.
// stand_in_streams.h has the streams. Operations run on the host, on copies. stand_in_device.py loads it.

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
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "stand_in_streams.h"

namespace {

using at::Device;
using at::Tensor;
using c10::DeviceIndex;
using c10::Stream;
using stand_in::Mark;
using stand_in::moved;
using stand_in::streams;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr DeviceIndex kDevices = 4;
// ---- Streams

Stream stream_of(DeviceIndex index, c10::StreamId id) { return Stream(Stream::UNSAFE, Device(kDevice, index), id); }

void drain(const Stream& stream) { streams().mark(stream)->await(); }

// Ids from 1 on; 0 is the stream that is current at first.
std::atomic<c10::StreamId> last_stream{0};

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
    return stream_of(device.has_index() ? device.index() : current_device, ++last_stream);
  }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = current_stream(stream.device());
    current_streams[static_cast<std::size_t>(stream.device_index())] = stream.id();
    return before;
  }
  bool queryStream(const Stream& stream) const override { return streams().mark(stream)->passed(); }
  void synchronizeStream(const Stream& stream) const override { drain(stream); }
  void synchronizeDevice(DeviceIndex index) const override {
    for (c10::StreamId id = last_stream; id >= 0; --id) {
      drain(stream_of(index, id));
    }
  }

  void record(void** event, const Stream& stream, DeviceIndex, c10::EventFlag) const override {
    destroyEvent(*event, 0);
    *event = new std::shared_ptr<Mark>(streams().mark(stream));
  }
  void block(void* event, const Stream& stream) const override {
    if (event != nullptr) {
      streams().wait_for(stream, mark_in(event));
    }
  }
  bool queryEvent(void* event) const override { return event == nullptr || mark_in(event)->passed(); }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      mark_in(event)->await();
    }
  }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete &mark_in(event); }

 private:
  static std::shared_ptr<Mark>& mark_in(void* event) { return *static_cast<std::shared_ptr<Mark>*>(event); }
};

// ---- Memory

void give_back(void* memory) { streams().free(memory); }

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = bytes == 0 ? nullptr : streams().allocate(current_stream({kDevice, current_device}), bytes);
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
std::mutex users_mutex;
std::multimap<const c10::StorageImpl*, Stream>& other_users() {
  static auto* users = new std::multimap<const c10::StorageImpl*, Stream>;
  return *users;
}

void record_stream(Tensor& tensor, Stream stream) {
  const std::lock_guard lock(users_mutex);
  streams().share(moved(tensor.storage().mutable_data()));
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
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getCPUAllocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    drain(current_stream(storage.device()));
    {
      const std::lock_guard lock(users_mutex);
      const auto [first, last] = other_users().equal_range(storage.unsafeGetStorageImpl());
      for (auto user = first; user != last; ++user) {
        drain(user->second);
      }
      other_users().erase(first, last);
    }
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
  const at::AutoDispatchBelowAutograd without_autograd;
  if (!target.is_privateuseone()) {
    drain(current_stream(source.device()));
    target.copy_(numbers_of(source));
    return target;
  }
  // Memory of the device is kept only if streams say so; the copy of what the host may change at once always is.
  const Tensor read = source.is_privateuseone() ? numbers_of(source) : source.clone();
  std::vector<c10::Storage> kept;
  if (streams().keeps_tensors()) {
    kept = {source.storage(), target.storage()};
  }
  const Stream stream = current_stream(target.device());
  streams().put(stream, [read, written = numbers_of(target), kept] {
    const at::AutoDispatchBelowAutograd without;
    written.copy_(read);
  });
  if (source.is_cpu() && !non_blocking && !in_operation) {
    drain(stream);
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

// The driver's handle of a stream; null if it has none.
extern "C" void* stand_in_stream(int device, std::int64_t id) {
  return streams().handle_of(stream_of(static_cast<DeviceIndex>(device), id));
}
