#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/buffers.h"
#include "runtime/base/dtype.h"

namespace rueda::perf {

/// The buffer of the result: the input's, or one of its own.
enum class Form { kInPlace, kOutOfPlace };

/// The command line.
struct Arguments {
  core::OpKind collective = core::OpKind::kAllreduce;
  size_t min_bytes = 8;
  size_t max_bytes = size_t{64} << 20;
  size_t step_factor = 2;
  core::Dtype dtype = core::Dtype::kF32;
  core::ReduceOp op = core::ReduceOp::kSum;
  core::CodecId codec = core::CodecId::kNone;
  std::string algorithm = "auto";
  std::vector<Form> forms = {Form::kInPlace, Form::kOutOfPlace};
  Buffers buffers = Buffers::kHot;
  std::string memory = "private";  ///< of the tensors; or "shared", by rueda_memory_allocate
  size_t tensors = 1;              ///< enqueued at once, each of `min_bytes` .. `max_bytes`
  std::string set;                 ///< "resnet50": the sizes are those of its gradients
  size_t iterations = 0;           ///< 0: by the time a step takes
  size_t warm_up = 0;              ///< 0: by the size
  double entry_seconds = 0.5;
  bool limit = false;
  std::string peer;         ///< "mpi"
  double idle_seconds = 0;  ///< above 0: the idle report instead of a sweep
  std::string json_path;
};

/// The bytes of one tensor in each entry of the sweep, ascending.
std::vector<size_t> sweep_sizes(const Arguments& arguments);

/// Whether this process speaks for all, by its environment: known before init.
bool is_rank_zero();

/// Parses the command line. On --help, or on a flag that is wrong, rank 0 prints what there is to say (the others would
/// say the same); nothing is returned, and the exit code in `exit_code`.
std::optional<Arguments> parse_arguments(int argc, char** argv, int* exit_code);

}  // namespace rueda::perf
