#pragma once
#include "benchmarks/rueda_perf/arguments.h"

namespace rueda::perf {

/// The idle report: makes the session itself, to see what it costs. The exit code. Throws rueda::Error.
int report_idle(const Arguments& arguments);

}  // namespace rueda::perf
