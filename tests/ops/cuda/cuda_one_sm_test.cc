// GPUs with room for one kernel at a time, as a large kernel of NCCL's fills one: the entry of ctest sets
// STANDIN_CUDA_ONE_SM. GPUs and NCCL are stand-ins.
#include <catch2/catch.hpp>

#include "tests/ops/cuda/nccl.h"

namespace rueda::test {
namespace {

/// Kernels of two sets that are in the GPU in another order on each rank would wait for each other for ever.
TEST_CASE("two process sets finish on GPUs with room for one kernel, whatever the order in which ranks use them") {
  use_nccl();
  run_ranks(2, [](rueda_session* session, int rank) {
    const int32_t both[] = {0, 1};
    int32_t other = 0;
    expect_code(rueda_process_set_add(session, 2, both, "other", &other), RUEDA_OK, "add");
    const GpuStream stream(rank);
    const GpuMemory<float> first(1000);
    const GpuMemory<float> second(1000);
    for (int i = 0; i < 30; ++i) {
      rueda_handle handles[2] = {};
      for (int k = 0; k < 2; ++k) {
        const bool in_other = (k + rank + i) % 2 == 0;
        const GpuMemory<float>& memory = in_other ? second : first;
        const std::vector<float> values = numbers(rank, 1000);
        std::copy(values.begin(), values.end(), memory.kernels());
        const GpuTensor tensor(memory.data(), 1000, rank);
        rueda_op_options options = on_stream(in_other ? "b" : "a", stream.get());
        options.process_set = in_other ? other : RUEDA_GLOBAL_SET;
        options.timeout_seconds = 60;
        expect_code(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handles[k]),
                    RUEDA_OK, "enqueue");
      }
      for (const rueda_handle handle : handles) expect_done(handle, "one of two sets");
      expect_sums(first.values(), 2, "the set of all");
      expect_sums(second.values(), 2, "the other set");
    }
    expect(batches_by_nccl(session) == 60, "NCCL has not run all sums");
  });
  CHECK(use_nccl().counts().misuses == 0);
}

}  // namespace
}  // namespace rueda::test
