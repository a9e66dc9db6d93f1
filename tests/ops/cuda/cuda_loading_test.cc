// The loading of kernels, while it fails and while it takes long.
#include <catch2/catch.hpp>
#include <future>
#include <latch>

#include "ops/cuda/device.h"
#include "tests/ops/cuda/gpu.h"

namespace rueda::test {
namespace {

TEST_CASE("kernels that could not be loaded are loaded by a later call") {
  if (RUEDA_TEST_KERNELS == 0) return;
  gpu();
  const cuda::Driver driver = cuda::open_driver(RUEDA_TEST_CUDA).value();
  static cuda::Device* const device = cuda::Device::make(driver, 0).value().release();  // lives as long as its marks
  gpu().fail("cuModuleLoadData", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const core::Status failure = device->kernels().status();
  gpu().heal();
  CHECK_THAT(failure.sentence(), Catch::Matchers::Contains("cuModuleLoadData: out of memory"));
  const auto loaded = device->kernels();
  REQUIRE(loaded.ok());
  CHECK(device->kernels().value() == loaded.value());
}

std::latch& loading() {
  static std::latch one(1);
  return one;
}
std::latch& go_on() {
  static std::latch one(1);
  return one;
}

TEST_CASE("while kernels are loaded, which may wait for the GPU, marks are made and streams are taken") {
  if (RUEDA_TEST_KERNELS == 0) return;
  gpu();
  static const auto load_module = cuda::open_driver(RUEDA_TEST_CUDA).value().load_module;
  cuda::Driver driver = cuda::open_driver(RUEDA_TEST_CUDA).value();
  driver.load_module = [](CUmodule* module, const void* image) {
    loading().count_down();
    go_on().wait();
    return load_module(module, image);
  };
  static cuda::Device* const device = cuda::Device::make(driver, 0).value().release();  // lives as long as its marks
  auto loaded = std::async(std::launch::async, [&] { return device->kernels().ok(); });
  loading().wait();
  auto used = std::async(std::launch::async, [&] {
    std::string why;
    const cuda::Current current(*device);
    cuda::Mark* const mark = device->take_mark(cuda::MarkKind::kPlain, why);
    if (mark != nullptr) device->give_mark(mark);
    return mark != nullptr && device->take_stream().ok();
  });
  CHECK(used.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  go_on().count_down();
  CHECK((used.get() && loaded.get()));
}

}  // namespace
}  // namespace rueda::test
