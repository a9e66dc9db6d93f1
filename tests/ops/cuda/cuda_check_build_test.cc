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
  CHECK_THAT(text, Contains("[X] cuda "));
  CHECK_THAT(text, Contains("driver for CUDA 13.0 (" RUEDA_TEST_CUDA "), 2 GPUs: 0 stand-in GPU (compute capability "
                            "9.0, 80 GiB, GPU-a0a0a0a0), 1 stand-in GPU"));
  CHECK_THAT(text, Contains("support for NCCL is built in, but cannot be used: no NCCL: /nowhere") &&
                       Contains("pip install nvidia-nccl-cu13"));
}

TEST_CASE("--check-build names the NCCL that it has found, and says that one is too old") {
  const std::string variables = "RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA " RUEDA_NCCL_LIBRARY=" RUEDA_TEST_NCCL;
  CHECK_THAT(check_build(variables), Contains("NCCL 2.28.9 (" RUEDA_TEST_NCCL ")"));
  CHECK_THAT(check_build(variables + " STANDIN_NCCL_VERSION=21304"),
             Contains("NCCL 2.13.4 (" RUEDA_TEST_NCCL ") is too old; the least is 2.14.0"));
}

TEST_CASE("NCCL is found beside the plug-in, where pip puts both, and else by the dynamic linker") {
  namespace fs = std::filesystem;
  const TemporaryFolder site;
  const fs::path built = fs::path(RUEDA_TEST_HVDRUN).parent_path();
  for (const char* folder : {"rueda/bin", "rueda/lib", "nvidia/nccl/lib"}) fs::create_directories(site.file(folder));
  fs::copy_file(RUEDA_TEST_HVDRUN, site.file("rueda/bin/hvdrun"));
  fs::copy_file(built / "../lib/librueda_cuda.so", site.file("rueda/lib/librueda_cuda.so"));
  const std::string library = site.file("nvidia/nccl/lib/libnccl.so.2");
  fs::copy_file(RUEDA_TEST_NCCL, library);
  const std::string linker = "LD_LIBRARY_PATH=" + fs::path(RUEDA_TEST_NCCL).parent_path().string() + " ";
  const std::string check =
      "RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA " " + site.file("rueda/bin/hvdrun") + " --check-build";
  CHECK_THAT(said_by("env -u RUEDA_NCCL_LIBRARY " + linker + check), Contains("NCCL 2.28.9 (" + library + ")"));
  CHECK_THAT(said_by("RUEDA_NCCL_LIBRARY=/nowhere " + check), Contains("no NCCL: /nowhere"));
  fs::remove(library);
  CHECK_THAT(said_by("env -u RUEDA_NCCL_LIBRARY " + linker + check), Contains("NCCL 2.28.9 (" RUEDA_TEST_NCCL ")"));
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
             Contains("[ ] cuda ") && Contains("there is no CUDA driver: /nowhere") &&
                 Contains("Debian: apt install nvidia-driver, Ubuntu: ubuntu-drivers install") &&
                 Contains("or name its library in RUEDA_CUDA_LIBRARY"));
  CHECK_THAT(check_build("STANDIN_CUDA_VERSION=11000 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
             Contains("[ ] cuda ") && Contains("serves CUDA 11.0; the least is CUDA 11.2: install a newer driver"));
  CHECK_THAT(check_build("STANDIN_CUDA_BROKEN=1 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
             Contains("[ ] cuda ") && Contains("cuInit: an error of the stand-in") &&
                 Contains("nvidia-smi says whether the driver works"));
  CHECK_THAT(check_build("STANDIN_CUDA_DEVICES=0 RUEDA_CUDA_LIBRARY=" RUEDA_TEST_CUDA),
             Contains("[ ] cuda ") && Contains("the driver finds no GPU; CUDA_VISIBLE_DEVICES may hide them"));
}

TEST_CASE("--check-build says also without a driver what there is of NCCL and kernels") {
  const std::string text = check_build("RUEDA_CUDA_LIBRARY=/nowhere RUEDA_NCCL_LIBRARY=" RUEDA_TEST_NCCL);
  CHECK_THAT(text, Contains("[ ] cuda ") && Contains("NCCL 2.28.9 (" RUEDA_TEST_NCCL ")"));
  CHECK_THAT(text, Contains(RUEDA_TEST_KERNELS != 0 ? "kernels for sm_" : "built without kernels"));
}

TEST_CASE("--check-build says that the plug-in for GPUs is not there, and what brings it") {
  const TemporaryFolder elsewhere;
  std::filesystem::create_directory(elsewhere.file("bin"));
  std::filesystem::copy_file(RUEDA_TEST_HVDRUN, elsewhere.file("bin/hvdrun"));
  const std::string text = said_by(elsewhere.file("bin/hvdrun") + " --check-build");
  CHECK_THAT(text, Contains("[ ] cuda ") && Contains("librueda_cuda.so"));
  CHECK_THAT(text, Contains("tensors on GPUs need it: it is in the wheel") && Contains("scripts/setup --cuda brings"));
}

}  // namespace
}  // namespace rueda::test
