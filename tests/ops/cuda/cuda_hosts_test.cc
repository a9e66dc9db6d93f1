// Jobs that hvdrun starts on two hosts of the netlab, whose ranks have a GPU each. GPUs and NCCL are stand-ins, the
// network between the hosts is real.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/ops/cuda/gpu_hosts.h"
#include "tests/ops/cuda/nccl.h"

namespace rueda::test {
namespace {

constexpr int64_t kLong = 2'500'001;

/// A rank on the GPU of its local rank: a long sum and small ones, and how many communicators they took.
TEST_CASE("rank: sums on GPUs of several hosts", "[.]") {
  use_nccl();
  rueda_session* session = nullptr;
  expect_code(rueda_init(nullptr, &session), RUEDA_OK, "init");
  const int rank = rueda_rank(session);
  const int index = rueda_local_rank(session);
  {
    const GpuStream stream(index);
    std::vector<std::unique_ptr<GpuMemory<float>>> memory;
    std::vector<rueda_handle> handles;
    for (const int64_t count : {int64_t{1}, kLong, int64_t{0}, int64_t{33}}) {
      memory.push_back(std::make_unique<GpuMemory<float>>(numbers(rank, static_cast<size_t>(count))));
      const std::string name = "t" + std::to_string(count);
      handles.push_back(sum_on_gpu(session, *memory.back(), count, name.c_str(), stream.get(), index));
    }
    for (const rueda_handle handle : handles) expect_done(handle, "sum");
    for (const auto& each : memory) expect_sums(each->values(), rueda_size(session), "over hosts");
    expect(batches_by_nccl(session) > 0, "NCCL has run no batch");
  }
  const std::string line = "rank " + std::to_string(rank) + ": sums are right, by " +
                           std::to_string(standin_nccl().counts().made) + " communicators\n";
  CHECK(rueda_shutdown(session) == RUEDA_OK);
  expect(::write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()), "the report");
}

TEST_CASE("on two hosts of two GPUs sums take two levels by themselves, over TCP, and one if that is set") {
  NetLab::skip_without();
  const GpuHosts hosts;
  const long long bytes = kLong * static_cast<long long>(sizeof(float));
  long long before = hosts.bytes_sent();
  const CommandResult run = hosts.run("node1:2,node2:2", {});
  expect_right(run, 4, 2);
  CHECK_THAT(run.err, Catch::Matchers::Contains("(data, lane"));
  CHECK(hosts.bytes_sent() - before > bytes);  // of two hosts each sends the other one as much as the tensor has
  before = hosts.bytes_sent();
  expect_right(hosts.run("node1:2,node2:2", {"RUEDA_HIERARCHICAL_ALLREDUCE=0"}), 4, 1);
  CHECK(hosts.bytes_sent() - before < bytes);  // what NCCL's ranks tell each other does not use this network
}

TEST_CASE("hosts of two GPUs and one, or of three and one, take two levels if that is set") {
  NetLab::skip_without();
  const GpuHosts hosts;
  expect_right(hosts.run("node1:2,node2:1", {}), 3, 1);
  expect_right(hosts.run("node1:2,node2:1", {"RUEDA_HIERARCHICAL_ALLREDUCE=1"}), 3, 2);
  expect_right(hosts.run("node1:1,node2:3", {"RUEDA_HIERARCHICAL_ALLREDUCE=1"}), 4, 2);
}

}  // namespace
}  // namespace rueda::test
