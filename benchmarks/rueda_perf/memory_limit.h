#pragma once
#include "benchmarks/rueda_perf/job.h"

namespace rueda::perf {

/// GB/s that all ranks together read plus write when each goes over memory of its own in place, beyond every cache: the
/// best of some windows. All ranks call it together. Throws std::bad_alloc if there is not enough memory.
double memory_GBps(const Job& job);

}  // namespace rueda::perf
