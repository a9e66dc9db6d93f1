// Measures the CUDA plug-in on a GPU. scripts/gpu-check calls it, mode by mode.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "benchmarks/gpu/gpu.h"

int main(int argc, char** argv) {
  using namespace rueda::gpu_speed;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "kernels") {
    measure_kernels(argc > 2 ? argv[2] : "");
  } else if (mode == "launches") {
    measure_launches();
  } else if (mode == "rate" && argc > 2) {
    measure_rate(std::strtoull(argv[2], nullptr, 10));
  } else if (mode == "death" && argc > 3) {
    measure_death(argv[2], argv[3]);
  } else if (mode == "packing") {
    show_packing();
  } else if (mode == "idle") {
    look_idle();
  } else {
    std::fprintf(
        stderr,
        "gpu_speed kernels [FATBIN] | launches | packing | rate BYTES | death making|first|steady FILE | idle\n");
    return 2;
  }
  return 0;
}
