// Sums on GPUs of two hosts, between which MPI moves the host's memory. GPUs and NCCL are stand-ins, Open MPI is real.
#include <catch2/catch.hpp>

#include "tests/ops/cuda/gpu_hosts.h"

namespace rueda::test {
namespace {

TEST_CASE("two levels on GPUs add up between hosts by MPI if MPI moves the host's memory") {
  NetLab::skip_without();
  const GpuHosts hosts;
  const std::vector<std::string> flags = {"--mpi", "--mpi-args",
                                          "--mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 "
                                          "-x STANDIN_CUDA_DEVICES -x STANDIN_NCCL_FOLDER -x NCCL_NET"};
  const CommandResult run = hosts.run("node1:2,node2:2", {}, flags);
  expect_right(run, 4, 2);
  CHECK_THAT(run.out + run.err, !Catch::Matchers::Contains("(data, lane"));  // as the log calls connections of TCP
}

}  // namespace
}  // namespace rueda::test
