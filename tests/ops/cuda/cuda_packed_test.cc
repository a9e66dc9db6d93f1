// All-reduces by kernels and NCCL: what is packed and what is not, and what comes out. GPUs and NCCL are stand-ins.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/ops/cuda/gpu_group.h"
#include "tests/ops/cuda/nccl.h"
#include "tests/support/rank_processes.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

/// How often two ranks have called NCCL and launched kernels for a group's sum and its average.
struct Calls {
  int operations;
  int kernels;
};
Calls calls_for(const std::vector<int64_t>& counts, int32_t op) {
  const int operations = use_nccl().counts().operations;
  const int kernels = gpu().counts().kernels;
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    GpuGroup group(rank, counts);
    const rueda_op_options options = on_stream("group", stream.get());
    group.reduce(session, op, options);
    if (op == RUEDA_SUM) {
      for (const auto& each : group.memory()) expect_sums(each->values(), 2, "packed");
    }
    expect(batches_by_nccl(session) == 1, "NCCL has not run the batch");
  });
  CHECK(use_nccl().counts().misuses == 0);
  CHECK(gpu().counts().wrong_kernels == 0);
  return {use_nccl().counts().operations - operations, gpu().counts().kernels - kernels};
}

TEST_CASE("many small tensors are one call of NCCL, long ones a call each, and kernels finish averages") {
  const Calls small = calls_for(lengths(150), RUEDA_SUM);
  const Calls one = calls_for({1000}, RUEDA_SUM);
  const Calls one_mean = calls_for({1000}, RUEDA_AVERAGE);
  const Calls long_ones = calls_for({300'000, 0, 300'001, 300'007}, RUEDA_SUM);
  const Calls long_means = calls_for({300'000, 0, 300'001, 300'007}, RUEDA_AVERAGE);
  if (RUEDA_TEST_KERNELS == 0) {
    CHECK((small.operations > 2 && small.kernels == 0));
    return;
  }
  CHECK((small.operations == 2 && small.kernels == 4));
  CHECK((one.operations == 2 && one.kernels == 0));
  CHECK((one_mean.operations == 2 && one_mean.kernels == 2));
  CHECK((long_ones.operations == 6 && long_ones.kernels == 0));
  CHECK((long_means.operations == 6 && long_means.kernels == 2));
}

TEST_CASE("means of small and of long tensors are what the host gives, also of three ranks, and scaled") {
  use_nccl();
  run_ranks(3, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    for (const auto& counts : {lengths(40), lengths(250), std::vector<int64_t>{300'003, 300'001}}) {
      GpuGroup group(rank, counts);
      rueda_op_options options = on_stream("means", stream.get());
      options.has_scale = RUEDA_TEST_KERNELS != 0;  // without them inputs are scaled, and so rounded, before the sum
      options.prescale = 0.5;
      options.postscale = 0.7;
      group.reduce(session, RUEDA_AVERAGE, options);
      for (size_t i = 0; i < counts.size(); ++i) {
        std::vector<float> values = numbers(rank, static_cast<size_t>(counts[i]));
        const CTensor host(values, RUEDA_F32);
        expect_code(rueda_allreduce(session, host.get(), host.get(), RUEDA_AVERAGE, &options), RUEDA_OK, "on the host");
        expect(group.memory()[i]->values() == values, "a mean of " + std::to_string(counts[i]) + " floats differs");
      }
    }
  });
}

TEST_CASE("after the first batch nothing is allocated or freed, and at the end all is given back") {
  use_nccl();
  const StandinCounts before = gpu().counts();
  std::barrier all_have_looked(2);  // a rank that leaves gives memory back
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    GpuGroup group(rank, lengths(120));
    const rueda_op_options options = on_stream("steady", stream.get());
    group.reduce(session, RUEDA_SUM, options);
    const StandinCounts first = gpu().counts();
    for (int i = 0; i < 8; ++i) group.reduce(session, i % 2 == 0 ? RUEDA_SUM : RUEDA_AVERAGE, options);
    const StandinCounts now = gpu().counts();
    all_have_looked.arrive_and_wait();
    expect(now.allocations == first.allocations && now.frees == first.frees, "the steady state allocates");
  });
  const StandinCounts after = gpu().counts();
  CHECK(after.allocations - before.allocations == after.frees - before.frees);
  CHECK(after.wrong_kernels == 0);
}

TEST_CASE("the buffer is taken at the first batch that is packed, and one without memory for it says so") {
  if (RUEDA_TEST_KERNELS == 0) return;
  StandinNccl& library = use_nccl();
  const auto taken = [&] { return gpu().counts().allocations + library.counts().memory; };
  const int before = taken();
  std::barrier both(2);
  run_ranks(2, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    GpuGroup long_ones(rank, {300'000, 300'001});
    const rueda_op_options options = on_stream("group", stream.get());
    long_ones.reduce(session, RUEDA_AVERAGE, options);
    both.arrive_and_wait();
    expect(taken() == before, "a buffer was taken for tensors that are not packed");
    both.arrive_and_wait();
    GpuGroup small(rank, lengths(20));
    small.reduce(session, RUEDA_SUM, options);
    both.arrive_and_wait();
    expect(taken() == before + 4, "not each rank has a buffer and its tables");
    both.arrive_and_wait();  // a rank that leaves gives them back
  });
  run_ranks(1, [&](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    const GpuMemory<float> memory(numbers(0, 10));
    const GpuTensor tensor(memory.data(), 10, rank);
    rueda_op_options options = on_stream("too much", stream.get());
    options.codec = RUEDA_CODEC_BF16;
    library.fail("ncclMemAlloc", 1, cuda::NcclResult::kUnhandledCudaError);
    gpu().fail("cuMemAllocAsync", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    const int32_t code = rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options);
    gpu().heal();
    library.heal();
    expect_code(code, RUEDA_SYSTEM, "no memory");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("\"too much\"") != std::string::npos, sentence);
    expect(sentence.find("bytes to pack small tensors in: cuMemAlloc: out of memory") != std::string::npos, sentence);
  });
}

TEST_CASE("a rank that has joined brings neutral elements to what kernels and NCCL run") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    const GpuStream stream(rank);
    GpuGroup first(rank, lengths(3));
    const rueda_op_options options = on_stream("group", stream.get());
    first.reduce(session, RUEDA_SUM, options);
    if (rank == 1) return expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
    for (const auto& counts : {lengths(130), lengths(4200)}) {  // the last are more than a table holds
      GpuGroup group(0, counts);
      group.reduce(session, RUEDA_SUM, options);
      group.reduce(session, RUEDA_PRODUCT, options);
      for (size_t i = 0; i < counts.size(); ++i) {
        expect(group.memory()[i]->values() == numbers(0, static_cast<size_t>(counts[i])),
               "the joined rank brought something");
      }
    }
    const GpuMemory<int32_t> least(std::vector<int32_t>{-5, 7});
    CTensor tensor(least.data(), RUEDA_I32, {2});
    tensor->device = RUEDA_DEVICE_CUDA;
    for (const int32_t op : {RUEDA_MIN, RUEDA_MAX}) {
      expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), op, &options), RUEDA_OK, "extreme");
      expect(least.values() == std::vector<int32_t>{-5, 7}, "the joined rank brought an extreme");
    }
    GpuMemory<int32_t> late(2);
    CTensor output(static_cast<int32_t*>(nullptr), RUEDA_I32, {2});
    output->device = RUEDA_DEVICE_CUDA;
    rueda_op_options allocating = options;
    allocating.allocate = [](void* memory, size_t, int32_t, int32_t, void*) { return memory; };
    allocating.allocate_context = late.data();
    expect_code(rueda_allreduce(session, tensor.get(), output.get(), RUEDA_MAX, &allocating), RUEDA_OK, "late output");
    expect(late.values() == std::vector<int32_t>{-5, 7}, "the output that was allocated late was not written");
    expect(batches_by_nccl(session) == (RUEDA_TEST_KERNELS != 0 ? 8 : 1), "the batches have gone another way");
    expect_code(rueda_join(session, nullptr, nullptr), RUEDA_OK, "join");
  });
  CHECK(gpu().counts().wrong_kernels == 0);
}

/// A job of two ranks: a mean of integers and a sum of small tensors, and how many of both were NCCL's.
TEST_CASE("rank: a mean of integers and a sum of small tensors", "[.]") {
  gpu();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const GpuStream stream(rank);
  const GpuMemory<int32_t> integers(std::vector<int32_t>{rank == 0 ? 7 : 2'000'000'000, 2'000'000'001});
  CTensor tensor(integers.data(), RUEDA_I32, {2});
  tensor->device = RUEDA_DEVICE_CUDA;
  tensor->device_index = rank;
  rueda_op_options options = on_stream("integers", stream.get());
  expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_AVERAGE, &options), RUEDA_OK, "integers");
  expect(integers.values() == std::vector<int32_t>{1'000'000'003, 2'000'000'001}, "the mean of integers is wrong");
  GpuGroup group(rank, lengths(20));
  options = on_stream("group", stream.get());
  group.reduce(session, RUEDA_SUM, options);
  for (const auto& each : group.memory()) expect_sums(each->values(), 2, "group");
  rank_report("by NCCL " + std::to_string(batches_by_nccl(session)));
  CHECK(rueda_shutdown(session) == RUEDA_OK);
}

std::vector<RankOutcome> outcomes_with(const RankProcesses::Variables& of_rank_1) {
  // Without the search for leaks, which cannot read the threads of streams that never end.
  RankProcesses ranks(
      {.size = 2,
       .body = "rank: a mean of integers and a sum of small tensors",
       .variables = {{"RUEDA_NCCL_LIBRARY", RUEDA_TEST_NCCL},
                     {"RUEDA_LOG_LEVEL", "info"},
                     {"ASAN_OPTIONS", "detect_leaks=0"}},
       .of_rank = [of_rank_1](int rank) { return rank == 1 ? of_rank_1 : RankProcesses::Variables{}; }});
  return ranks.finish();
}

TEST_CASE("if one rank has no kernels no rank packs, and what needs them goes through the host") {
  for (const RankOutcome& outcome : outcomes_with({})) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by") == (RUEDA_TEST_KERNELS != 0 ? "NCCL 2" : "NCCL 1"));
  }
  const std::vector<RankOutcome> outcomes = outcomes_with({{"STANDIN_CUDA_NO_KERNELS", "1"}});
  for (const RankOutcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.report("by") == "NCCL 1");
  }
  CHECK_THAT(outcomes[1].output, Contains("tensors on GPUs are not packed: "));
}

}  // namespace
}  // namespace rueda::test
