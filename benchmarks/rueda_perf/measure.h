#pragma once
#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/entry.h"
#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/neighbours.h"

namespace rueda::perf {

/// Measures one entry: tensors of `tensor_bytes` (ignored for a set). All ranks call it together and get the same
/// entry. Throws rueda::Error, and std::bad_alloc if the buffers do not fit.
Entry measure_entry(const Job& job, Neighbours& neighbours, const Arguments& arguments, Form form, size_t tensor_bytes);

}  // namespace rueda::perf
