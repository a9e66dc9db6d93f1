// Memory of one of the two kinds that a program may use for its tensors. Shared memory that is private after all would
// measure something else than the command line says, so it ends the run.
#include "benchmarks/rueda_perf/step_memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "benchmarks/rueda_perf/timing.h"

namespace rueda::perf {

StepMemory::StepMemory(const Job& job, const Arguments& arguments, size_t bytes) {
  if (arguments.memory == "private") {
    own_ = std::make_unique<Memory>(bytes);
    return;
  }
  rueda_memory memory{};
  memory.struct_size = sizeof memory;
  check(rueda_memory_allocate(job.session().c_session(), std::max<size_t>(bytes, 1), &memory));
  shared_ = static_cast<std::byte*>(memory.data);
  if (memory.shared == 0) {
    rueda_memory_free(shared_);
    throw std::runtime_error("--memory shared: rank " + std::to_string(job.rank()) +
                             " has no other rank on its host to share memory with, or may not; RUEDA_LOG_LEVEL=info "
                             "says why");
  }
  std::memset(shared_, 1, memory.bytes);
}

StepMemory::~StepMemory() { rueda_memory_free(shared_); }

}  // namespace rueda::perf
