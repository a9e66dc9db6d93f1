// The kernel that folds slices gives what the CPU's kernels give, bit by bit, whatever the bits of the inputs. The
// stand-in compiles the kernel's source for the host.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "ops/cuda/folded_batch.h"
#include "ops/kernels/reduce.h"
#include "runtime/base/reduction.h"
#include "tests/ops/cuda/kernels.h"

namespace rueda::test {
namespace {

using core::Dtype;
using core::ReduceOp;
using cuda::FoldParameters;
using Bytes = std::vector<std::byte>;

/// Every bit by chance: with NaNs, infinities and denormals among the floats, and sums that no two orders agree on.
Bytes any_bits(size_t bytes, unsigned seed) {
  std::mt19937 draw(seed);
  Bytes memory(bytes);
  for (std::byte& each : memory) each = static_cast<std::byte>(draw());
  return memory;
}

/// What is folded, and who takes part.
struct Folding {
  Dtype dtype;
  ReduceOp op;
  std::vector<int> groups;
  double postscale = 1.0;
  size_t bytes = 4096 + 16;
  std::string name() const {
    std::string text = std::string(core::name_of(op)) + " of " + core::name_of(dtype) + " * " +
                       std::to_string(postscale) + " of " + std::to_string(bytes) + " bytes over";
    for (const int group : groups) text += " " + std::to_string(group);
    return text;
  }
};

Bytes folded_on_cpu(const Folding& each, const std::vector<Bytes>& inputs) {
  core::ReduceTask task;
  task.dtype = each.dtype;
  task.op = each.op;
  task.postscale = each.postscale;
  task.divisor = static_cast<int64_t>(inputs.size());
  task.groups = each.groups;
  std::vector<const std::byte*> addresses;
  for (const Bytes& input : inputs) addresses.push_back(input.data());
  Bytes out(each.bytes);
  core::reduce(task, addresses, out.data(), core::StoreHint::kPlain, nullptr,
               static_cast<int64_t>(each.bytes / core::size_of(each.dtype)));
  return out;
}

/// As member `own`, whose input lies in its own slice.
Bytes folded_on_gpu(const Folding& each, const std::vector<Bytes>& inputs, size_t own) {
  core::Team team;
  team.groups = each.groups;
  team.ranks.resize(inputs.size());
  std::iota(team.ranks.begin(), team.ranks.end(), 0);
  team.index = static_cast<int>(own);
  core::DeviceCall device;
  core::Call call;
  call.team = &team;
  call.dtype = each.dtype;
  call.op = each.op;
  call.postscale = each.postscale;
  call.device = &device;
  const auto plan = cuda::fold_plan_of(call);
  expect(plan.has_value(), "there is no plan for " + each.name());
  const size_t stride = each.bytes + 32;
  Bytes all(stride * inputs.size(), std::byte{0x55});
  for (size_t m = 0; m < inputs.size(); ++m) {
    if (m != own) std::copy(inputs[m].begin(), inputs[m].end(), all.begin() + static_cast<ptrdiff_t>(m * stride));
  }
  const GpuStream stream(0);
  const GpuMemory<std::byte> others(all);
  const GpuMemory<std::byte> slice(inputs[own]);
  FoldParameters parameters = plan->fold;
  parameters.bytes = static_cast<int64_t>(each.bytes);
  parameters.stride = static_cast<int64_t>(stride);
  parameters.others = others.data();
  parameters.slice = slice.data();
  const core::Status launched = PackingGpu::one().kernels->launch(parameters, stream.get());
  expect(launched.ok(), launched.sentence());
  gpu().drain(stream.get());
  return slice.values();
}

void expect_folded(const Folding& each) {
  const auto members = static_cast<size_t>(std::accumulate(each.groups.begin(), each.groups.end(), 0));
  std::vector<Bytes> inputs;
  for (size_t m = 0; m < members; ++m) inputs.push_back(any_bits(each.bytes, static_cast<unsigned>(m + 1)));
  const Bytes expected = folded_on_cpu(each, inputs);
  for (size_t own = 0; own < members; ++own) {
    const Bytes got = folded_on_gpu(each, inputs, own);
    if (got == expected) continue;
    const auto at = std::mismatch(got.begin(), got.end(), expected.begin()).first - got.begin();
    expect(false, each.name() + ", as member " + std::to_string(own) + ", differs at byte " + std::to_string(at));
  }
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum,  ReduceOp::kAverage, ReduceOp::kProduct, ReduceOp::kMin,   ReduceOp::kMax,
                             ReduceOp::kBand, ReduceOp::kBor,     ReduceOp::kBxor,    ReduceOp::kAdasum};

TEST_CASE("a fold of any bits is the CPU's, for each type, operator, bracket and scale") {
  const auto dtype = static_cast<Dtype>(GENERATE(range(0, core::kDtypeCount)));
  for (const ReduceOp op : kOps) {
    if (!cuda::can_fold(dtype, op)) {
      CHECK((op == ReduceOp::kAdasum || dtype == Dtype::kOpaque || !core::why_undefined(op, dtype).empty()));
      continue;
    }
    for (const std::vector<int>& groups : std::vector<std::vector<int>>{{1}, {2}, {3}, {2, 2}, {1, 3, 1}, {4, 3, 2}}) {
      for (const double postscale : {1.0, 0.7}) expect_folded({dtype, op, groups, postscale});
    }
  }
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("slices of one run and of more than the grid's threads are folded to their ends") {
  for (const size_t bytes : {size_t{16}, size_t{32}, size_t{4080}, size_t{1} << 20}) {
    expect_folded({Dtype::kF32, ReduceOp::kSum, {2, 1}, 1.0, bytes});
    expect_folded({Dtype::kC128, ReduceOp::kSum, {2, 1}, 1.0, bytes});
  }
  CHECK(gpu().counts().wrong_kernels == 0);
}

TEST_CASE("a bracket of more than 32 members goes with the launch, and one of more than there is room for is refused") {
  expect_folded({Dtype::kF32, ReduceOp::kAverage, {1, 16, 16, 3}, 1.0, 64});
  core::Team team;
  team.ranks.resize(cuda::kMostFolded + 1);
  team.groups.assign(cuda::kMostFolded + 1, 1);
  core::DeviceCall device;
  core::Call call;
  call.team = &team;
  call.device = &device;
  CHECK(!cuda::fold_plan_of(call));
  team.ranks.pop_back();
  team.groups.pop_back();
  CHECK(cuda::fold_plan_of(call).has_value());
}

}  // namespace
}  // namespace rueda::test
