// What hvdrun --check-build says of GPUs, which stand-ins are.
#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "tests/ops/cuda/gpu.h"
#include "tests/support/temporary_folder.h"

namespace rueda::test {
namespace {

using Catch::Matchers::Contains;

std::string said_by(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  return text;
}

std::string check_build(const std::string& variables) {
  return said_by(variables + " " RUEDA_TEST_HVDRUN " --check-build");
}

TEST_CASE("--check-build says which driver and GPUs there are, and how to get NCCL") {
  const std::string text = check_build("RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA " RUEDA_NCCL_LIBRARY=/nowhere");
  CHECK_THAT(text, Contains("[X] cuda, nccl"));
  CHECK_THAT(text, Contains("driver for CUDA 13.0 (" RUEDA_TEST_CUDA "), 2 GPUs: 0 stand-in GPU (compute capability "
                            "9.0, 80 GiB, GPU-a0a0a0a0), 1 stand-in GPU"));
  CHECK_THAT(text, Contains("no NCCL: /nowhere") && Contains("pip install nvidia-nccl-cu13"));
}

TEST_CASE("--check-build names the NCCL that it has found, and says that one is too old") {
  const std::string variables = "RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA " RUEDA_NCCL_LIBRARY=" RUEDA_TEST_NCCL;
  CHECK_THAT(check_build(variables), Contains("NCCL 2.28.9 (" RUEDA_TEST_NCCL ")"));
  CHECK_THAT(check_build(variables + " STANDIN_NCCL_VERSION=21304"),
             Contains("NCCL 2.13.4 (" RUEDA_TEST_NCCL ") is too old; the least is 2.14.0"));
}

TEST_CASE("--check-build says for which GPUs there are kernels, or how to get them") {
  const std::string text = check_build("RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA);
  if (RUEDA_TEST_KERNELS != 0) {
    CHECK_THAT(text, Contains("kernels for sm_") && Contains("and later ones"));
  } else {
    CHECK_THAT(text, Contains("built without kernels") && Contains("scripts/setup --nvcc"));
  }
}

TEST_CASE("--check-build says that there is no driver, or no GPU, and what to do") {
  CHECK_THAT(check_build("RUEDA_CUDA_LIBRARY=/nowhere"),
             Contains("[ ] cuda, nccl") && Contains("there is no CUDA driver: /nowhere") &&
                 Contains("Debian: apt install nvidia-driver, Ubuntu: ubuntu-drivers install") &&
                 Contains("or name its library in RUEDA_CUDA_LIBRARY"));
  CHECK_THAT(
      check_build("STANDIN_CUDA_VERSION=11000 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
      Contains("[ ] cuda, nccl") && Contains("serves CUDA 11.0; the least is CUDA 11.2: install a newer driver"));
  CHECK_THAT(check_build("STANDIN_CUDA_BROKEN=1 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
             Contains("[ ] cuda, nccl") && Contains("cuInit: an error of the stand-in") &&
                 Contains("nvidia-smi says whether the driver works"));
  CHECK_THAT(check_build("STANDIN_CUDA_DEVICES=0 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
             Contains("[ ] cuda, nccl") && Contains("the driver finds no GPU; CUDA_VISIBLE_DEVICES may hide them"));
}

TEST_CASE("--check-build says also without a driver what there is of NCCL and kernels") {
  const std::string text = check_build("RUEDA_CUDA_LIBRARY=/nowhere RUEDA_NCCL_LIBRARY=" RUEDA_TEST_NCCL);
  CHECK_THAT(text, Contains("[ ] cuda, nccl") && Contains("NCCL 2.28.9 (" RUEDA_TEST_NCCL ")"));
  CHECK_THAT(text, Contains(RUEDA_TEST_KERNELS != 0 ? "kernels for sm_" : "built without kernels"));
}

TEST_CASE("--check-build says that the plug-in for GPUs is not there, and what brings it") {
  const TemporaryFolder elsewhere;
  std::filesystem::create_directory(elsewhere.file("bin"));
  std::filesystem::copy_file(RUEDA_TEST_HVDRUN, elsewhere.file("bin/hvdrun"));
  const std::string text = said_by(elsewhere.file("bin/hvdrun") + " --check-build");
  CHECK_THAT(text, Contains("[ ] cuda, nccl") && Contains("librueda_cuda.so"));
  CHECK_THAT(text, Contains("tensors on GPUs need it: it is in the wheel") && Contains("scripts/setup --cuda brings"));
}

}  // namespace
}  // namespace rueda::test
