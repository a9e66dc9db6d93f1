#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace rueda::compare {

/// What a step sums: tensors of f32, all of them in one step.
struct Work {
  std::string name;            ///< of its line in the report
  std::vector<size_t> counts;  ///< elements of each tensor
  bool packed = false;         ///< the tensors are copied into one, which is summed, and back
  bool cold = false;           ///< each step on other memory, beyond the caches
  bool shared = false;         ///< tensors in memory that the library gives
  std::string codec = "none";  ///< what values travel as; only Rueda has others
  double seconds = 0.3;        ///< time of the timed steps
};

/// One tensor of a step; `index` is its number in Work::counts.
struct Tensor {
  float* data;
  size_t count;
  size_t index;
};

/// The lines of a plan, each NAME each|packed hot|cold private|shared CODEC SECONDS COUNT*REPEAT,...
/// Throws std::runtime_error that names the line.
std::vector<Work> read_plan(const std::string& path);

}  // namespace rueda::compare
