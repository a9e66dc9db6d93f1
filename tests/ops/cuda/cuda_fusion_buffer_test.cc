// The memory that batches are packed in: its tables wait for the GPU, and it is counted and given back.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "ops/cuda/device_functions.h"
#include "ops/cuda/fusion_buffer.h"
#include "tests/ops/cuda/kernels.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using cuda::FusionBuffer;
using cuda::PackParameters;
using cuda::PackPiece;

std::atomic<int64_t> held{0};

/// A host that counts what it is told of.
const rueda_host& host() {
  static const rueda_host one = [] {
    rueda_host made{};
    made.log = [](int32_t, const char*) {};
    made.setting = [](const char* name) -> const char* {
      return std::string_view(name) == "CUDA_LIBRARY" ? gpu_library() : nullptr;
    };
    made.account = [](int64_t bytes) { held += bytes; };
    return made;
  }();
  return one;
}

const core::DeviceFunctions& functions() {
  static auto* const devices = new cuda::Devices(host());
  static const core::DeviceFunctions all = cuda::device_functions(*devices);
  return all;
}

/// Counts the waits, and ends the first one by letting the GPU go on.
class Waits : public core::EngineCall {
 public:
  explicit Waits(std::latch& gate) : gate_(gate) {}
  core::Status tell_all(std::span<std::byte>) override { return {}; }
  core::Status sum_between_hosts(std::byte*, int64_t, std::span<const int>) override { return {}; }
  core::Status until(const std::function<bool()>& ready) override {
    if (count++ == 0) gate_.count_down();
    for (const core::Deadline deadline = patience(); !ready(); std::this_thread::yield()) {
      expect(!deadline.passed(), "a table is in use for ever");
    }
    return {};
  }
  int count = 0;

 private:
  std::latch& gate_;
};

constexpr size_t kMany = 120;  // more than the parameters hold

/// Gathers single floats from odd places: the source's number `first`, and every second one from there.
cuda::PackTask gather_floats(std::vector<PackPiece>& pieces, float* source, size_t first, float* to) {
  for (size_t i = 0; i < kMany; ++i) {
    pieces.push_back({reinterpret_cast<std::byte*>(source + first + 2 * i), nullptr, 1, static_cast<int64_t>(16 * i),
                      static_cast<uint32_t>(i), 0});
  }
  static const core::Team team{.ranks = {0}, .groups = {1}, .hosts = {}};
  core::Call call;
  call.team = &team;
  return task_of(*cuda::pack_plan_of(call), cuda::PackWay::kGather, reinterpret_cast<std::byte*>(to));
}

TEST_CASE("a table is not written again before the GPU has copied it, and the lane waits for no other") {
  gpu();
  constexpr size_t kBatches = 5;  // one more than there are tables
  const GpuStream stream(0);
  const GpuMemory<float> source(numbers(1, 1000));
  const GpuMemory<float> results(kBatches * kMany * 4);
  std::latch gate(1);
  FusionBuffer buffer(host());
  REQUIRE(buffer.make(functions(), 0, stream.get()).ok());
  gpu().launch(stream.get(), [&gate] { gate.wait(); });
  Waits waits(gate);
  for (size_t batch = 0; batch < kBatches; ++batch) {
    std::vector<PackPiece> pieces;
    PackParameters parameters{};
    parameters.task = gather_floats(pieces, source.data(), batch, results.data() + batch * kMany * 4);
    REQUIRE(buffer.put(pieces, parameters, waits).ok());
    CHECK(waits.count == (batch + 1 == kBatches ? 1 : 0));
    parameters.task.tiles = static_cast<uint32_t>(kMany);
    REQUIRE(PackingGpu::one().kernels->launch(parameters, stream.get()).ok());
  }
  if (waits.count == 0) gate.count_down();
  gpu().drain(stream.get());
  bool right = true;
  for (size_t batch = 0; batch < kBatches; ++batch) {
    for (size_t i = 0; i < kMany; ++i) {
      right = right && results.kernels()[(batch * kMany + i) * 4] == source.kernels()[batch + 2 * i];
    }
  }
  CHECK(right);
  buffer.free();
  gpu().drain(stream.get());
}

TEST_CASE("a few pieces go with the launch: nothing is copied and nothing waits") {
  gpu();
  const GpuStream stream(0);
  std::latch gate(1);
  Waits waits(gate);
  FusionBuffer buffer(host());
  REQUIRE(buffer.make(functions(), 0, stream.get()).ok());
  const int copies = gpu().counts().copies;
  const std::vector<PackPiece> pieces(cuda::kHeldPieces);
  PackParameters parameters{};
  for (int i = 0; i < 10; ++i) REQUIRE(buffer.put(pieces, parameters, waits).ok());
  CHECK(parameters.task.pieces == cuda::kHeldPieces);
  CHECK(parameters.task.table == nullptr);
  CHECK((waits.count == 0 && gpu().counts().copies == copies));
  buffer.free();
  gpu().drain(stream.get());
}

TEST_CASE("the buffer is counted while it is there, made once, and not made if there is no memory for it") {
  gpu();
  const GpuStream stream(0);
  REQUIRE(held == 0);
  FusionBuffer buffer(host());
  gpu().fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
  const core::Status refused = buffer.make(functions(), 0, stream.get());
  gpu().heal();
  if (std::getenv("STANDIN_CUDA_POOLS") == nullptr) {
    CHECK_THAT(refused.sentence(), Catch::Matchers::Contains("to pack small tensors in"));
    CHECK((buffer.memory() == nullptr && held == 0));
  }
  REQUIRE(buffer.make(functions(), 0, stream.get()).ok());
  const int allocations = gpu().counts().allocations;
  const int64_t bytes = held;
  CHECK(bytes >= FusionBuffer::kBytes);
  REQUIRE(buffer.make(functions(), 0, stream.get()).ok());
  CHECK((gpu().counts().allocations == allocations && held == bytes));
  buffer.free();
  CHECK((buffer.memory() == nullptr && held == 0));
  gpu().drain(stream.get());
}

}  // namespace
}  // namespace rueda::test
