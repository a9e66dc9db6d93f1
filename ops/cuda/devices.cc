// Opens the driver and GPUs when they are needed, and describes them.
#include "ops/cuda/devices.h"

#include <fmt/format.h>
#include <pthread.h>

#include <array>
#include <vector>

#include "ops/cuda/pack_image.h"

namespace rueda::cuda {
namespace {

std::atomic<bool> in_child{false};

std::string setting_of(const rueda_host& host, const char* name) {
  const char* value = host.setting(name);
  return value == nullptr ? "" : value;
}

Status in_forked_child() {
  return {Code::kUnsupported,
          "this process was forked from one that uses CUDA, and CUDA does not work in it: start "
          "processes that use GPUs by spawn or exec"};
}

/// `0 NVIDIA H100 PCIe (compute capability 9.0, 80 GiB, GPU-0a1b2c3d)`.
std::string describe_gpu(const Driver& driver, int index) {
  CUdevice device{};
  std::array<char, 256> name{};
  CUuuid uuid{};
  size_t bytes = 0;
  int major = 0;
  int minor = 0;
  if (driver.device(&device, index) != CUDA_SUCCESS ||
      driver.device_name(name.data(), static_cast<int>(name.size()), device) != CUDA_SUCCESS ||
      driver.device_uuid(&uuid, device) != CUDA_SUCCESS || driver.device_memory(&bytes, device) != CUDA_SUCCESS ||
      driver.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) != CUDA_SUCCESS ||
      driver.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) != CUDA_SUCCESS) {
    return fmt::format("{} does not answer", index);
  }
  std::string id;
  for (size_t i = 0; i < 4; ++i) id += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  return fmt::format("{} {} (compute capability {}.{}, {} GiB, GPU-{})", index, name.data(), major, minor, bytes >> 30,
                     id);
}

}  // namespace

bool forked() { return in_child.load(std::memory_order_relaxed); }

Devices::Devices(const rueda_host& host)
    : host_(host), named_driver_(setting_of(host, "CUDA_LIBRARY")), named_nccl_(setting_of(host, "NCCL_LIBRARY")) {
  ::pthread_atfork(nullptr, nullptr, [] { in_child.store(true, std::memory_order_relaxed); });
}

Result<const Driver*> Devices::driver() {
  if (forked()) return in_forked_child();  // before the mutex, which another thread may have held at the fork
  const std::lock_guard lock(mutex_);
  if (!driver_) driver_.emplace(open_driver(named_driver_));
  if (!driver_->ok()) return driver_->status();
  return &driver_->value();
}

Result<Device*> Devices::of(int32_t index) {
  const Result<const Driver*> opened = driver();
  if (!opened.ok()) return opened.status();
  const std::lock_guard lock(mutex_);
  if (const auto known = devices_.find(index); known != devices_.end()) return known->second.get();
  Result<std::unique_ptr<Device>> made = Device::make(*opened.value(), index);
  if (!made.ok()) return made.status();
  return devices_.emplace(index, std::move(made).value()).first->second.get();
}

Result<const Nccl*> Devices::nccl() {
  const std::lock_guard lock(mutex_);
  if (!nccl_) nccl_.emplace(open_nccl(named_nccl_));
  if (!nccl_->ok()) return nccl_->status();
  return &nccl_->value();
}

Result<std::string> Devices::describe() {
  const Result<const Driver*> opened = driver();
  if (!opened.ok()) {
    return Status(opened.status().code(), fmt::format("{}; {}; {}", opened.status().sentence(),
                                                      describe_nccl(named_nccl_), describe_pack_image()));
  }
  const Driver& found = *opened.value();
  int count = 0;
  static_cast<void>(found.device_count(&count));  // open_driver has asked the same
  std::vector<std::string> gpus;
  for (int index = 0; index < count; ++index) gpus.push_back(describe_gpu(found, index));
  return fmt::format("driver for CUDA {} ({}), {} GPU{}: {}; {}; {}", version_text(found.version), found.path, count,
                     count == 1 ? "" : "s", fmt::join(gpus, ", "), describe_nccl(named_nccl_), describe_pack_image());
}

}  // namespace rueda::cuda
