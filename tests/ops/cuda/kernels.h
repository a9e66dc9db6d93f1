#pragma once
#include <memory>

#include "ops/cuda/device.h"
#include "ops/cuda/pack_image.h"
#include "ops/cuda/pack_plan.h"
#include "tests/ops/cuda/gpu.h"

namespace rueda::test {

/// GPU 0 with the kernels, as the plug-in has them. The stand-in runs its own, so any image does.
struct PackingGpu {
  cuda::Driver driver;
  std::unique_ptr<cuda::Device> device;
  std::unique_ptr<cuda::Kernels> kernels;

  static const PackingGpu& one() {
    static const auto* const made = [] {
      gpu();
      static constexpr unsigned char kImage[] = {0x50, 0xed, 0x55, 0xba};
      auto* const one = new PackingGpu{cuda::open_driver(gpu_library()).value(), nullptr, nullptr};
      one->device = cuda::Device::make(one->driver, 0).value();
      one->kernels =
          cuda::Kernels::load(*one->device, on_real_gpus() ? cuda::pack_image() : std::as_bytes(std::span(kImage)))
              .value();
      return one;
    }();
    return *made;
  }
};

/// The task of a plan in one direction.
inline cuda::PackTask task_of(const cuda::PackPlan& plan, cuda::PackWay way, std::byte* buffer) {
  const bool gathers = way == cuda::PackWay::kGather;
  return {.way = way,
          .wire = plan.wire,
          .dtype = plan.part,
          .element_bytes = static_cast<uint32_t>(core::size_of(plan.part)),
          .pieces = 0,
          .tiles = 0,
          .lanes = cuda::kPackThreads,
          .unused = 0,
          .divisor = gathers ? 1 : plan.divisor,
          .factor = gathers ? plan.before : plan.after,
          .neutral = plan.neutral,
          .table = nullptr,
          .buffer = buffer};
}

}  // namespace rueda::test
