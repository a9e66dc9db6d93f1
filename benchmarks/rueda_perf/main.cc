#include <cstdio>
#include <cstdlib>
#include <exception>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/measure.h"
#include "benchmarks/rueda_perf/report.h"

namespace {

using namespace rueda::perf;  // the program's own names

// Before any thread runs.
void force_algorithm(const Arguments& arguments) {
  const char* const variable = arguments.collective == rueda::core::OpKind::kBroadcast ? "RUEDA_BROADCAST_ALGORITHM"
                                                                                       : "RUEDA_ALLREDUCE_ALGORITHM";
  if (arguments.algorithm != "auto") ::setenv(variable, arguments.algorithm.c_str(), 1);
}

int sweep(const Job& job, const Arguments& arguments, Report& report) {
  Neighbours neighbours(job);
  bool correct = true;
  for (const size_t bytes : arguments.set.empty() ? sweep_sizes(arguments) : std::vector<size_t>{0}) {
    for (const Form form : arguments.forms) {
      const Row row = measure_row(job, neighbours, arguments, form, bytes);
      correct = correct && row.correct;
      if (job.speaks()) report.add(row);
    }
  }
  return correct ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto arguments = parse_arguments(argc, argv, &exit_code);
  if (!arguments) return exit_code;
  force_algorithm(*arguments);
  try {
    const Job job;
    Report report(arguments->json_path);
    exit_code = sweep(job, *arguments, report);
    if (!job.speaks()) return exit_code;
    const std::string complaint = report.finish();
    if (!complaint.empty()) std::fprintf(stderr, "%s\n", complaint.c_str());
    return complaint.empty() ? exit_code : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rueda-perf: %s\n", error.what());
    return 1;
  }
}
