#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "benchmarks/gpu/gpu.h"
#include "bindings/c/rueda.h"

namespace rueda::gpu_speed {

/// A rank of the job that hvdrun has started. What a call refuses ends the program.
rueda_session* begin();
void expect_ok(int32_t code, const char* what);
/// One line of JSON in one write: ranks may share the pipe.
void print(const nlohmann::json& line);
nlohmann::json stats_of(rueda_session* session);
/// The names of the ways that batches of this rank took.
nlohmann::json ways_of(rueda_session* session);
/// Waits until all have ended on the GPU, and releases them.
void finish(const std::vector<rueda_handle>& handles);

/// Tensors of one length in memory of the GPU, or of the host. They live as long as the process.
struct Tensors {
  std::vector<std::byte*> memory;
  int64_t count;
  bool on_gpu;

  /// Sums in place, as one batch if they fit.
  std::vector<rueda_handle> enqueue(rueda_session* session, CUstream stream);
};

Tensors tensors_on_gpu(size_t tensors, size_t bytes);

}  // namespace rueda::gpu_speed
