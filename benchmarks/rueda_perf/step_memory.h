#pragma once
#include <cstddef>
#include <memory>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/buffers.h"
#include "benchmarks/rueda_perf/job.h"

namespace rueda::perf {

/// The memory of a step's tensors: the process's own, or what rueda_memory_allocate gives. Touched.
class StepMemory {
 public:
  /// Throws rueda::Error if there is none, std::runtime_error if shared memory was asked for and is private.
  StepMemory(const Job& job, const Arguments& arguments, size_t bytes);
  ~StepMemory();
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  std::byte* data() const { return own_ ? own_->data() : shared_; }

 private:
  std::unique_ptr<Memory> own_;
  std::byte* shared_ = nullptr;
};

}  // namespace rueda::perf
