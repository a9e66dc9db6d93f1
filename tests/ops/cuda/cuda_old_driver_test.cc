// A driver that is too old: the entry of ctest sets STANDIN_CUDA_VERSION.
#include <catch2/catch.hpp>

#include "tests/ops/cuda/gpu.h"

namespace rueda::test {
namespace {

TEST_CASE("a driver that is too old is one sentence, and CPU tensors go on") {
  gpu();
  run_ranks(1, [](rueda_session* session, int) {
    const GpuMemory<float> memory(numbers(0, 10));
    const GpuTensor tensor(memory.data(), 10, 0);
    const rueda_op_options options = on_stream("old", nullptr);
    expect_code(rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options), RUEDA_SYSTEM, "old driver");
    const std::string sentence = rueda_last_error();
    expect(sentence.find("serves CUDA 11.0; the least is CUDA 11.2: install a newer driver") != std::string::npos,
           sentence);
    expect_usable(session, "on the CPU");
  });
}

}  // namespace
}  // namespace rueda::test
