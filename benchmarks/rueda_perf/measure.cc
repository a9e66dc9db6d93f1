// One entry, in this order on all ranks:
//
//   check ─▶ warm up ─▶ round trips ─▶ meet ─▶ timed steps ─▶ round trips ─▶ check
//
// The warm steps also say how long a step takes, from which all ranks compute the same number of timed steps. Round
// trips between the cores are measured right before and after, because they explain what the times cannot. The second
// check finds results that only break under load.
#include "benchmarks/rueda_perf/measure.h"

#include <algorithm>

#include "benchmarks/rueda_perf/algorithms_run.h"
#include "benchmarks/rueda_perf/resnet50.h"
#include "benchmarks/rueda_perf/timing.h"
#include "benchmarks/rueda_perf/workload.h"

namespace rueda::perf {
namespace {

std::vector<size_t> element_counts(const Arguments& arguments, size_t tensor_bytes) {
  if (arguments.collective == core::OpKind::kBarrier) return {};
  if (!arguments.set.empty()) return resnet50_parameter_counts();
  return std::vector<size_t>(arguments.tensors, std::max<size_t>(1, tensor_bytes / core::size_of(arguments.dtype)));
}

// Warms up; every rank gets the same number of steps to time.
size_t warm_up(const Job& job, const Arguments& arguments, Workload& workload) {
  const size_t steps = arguments.warm_up > 0 ? arguments.warm_up : usual_warm_up(workload.bytes());
  std::vector<double> times = time_steps(steps, [&](size_t turn) { workload.step(turn); });
  const double step_us = job.max(quantiles(times).p50);
  return arguments.iterations > 0 ? arguments.iterations : steps_within(arguments.entry_seconds, step_us);
}

}  // namespace

Entry measure_entry(const Job& job, Neighbours& neighbours, const Arguments& arguments, Form form,
                    size_t tensor_bytes) {
  Workload workload(job, arguments, form, element_counts(arguments, tensor_bytes));
  Entry entry;
  entry.collective = core::name_of(arguments.collective);
  entry.bytes = workload.bytes();
  entry.dtype = core::name_of(arguments.dtype);
  entry.codec = core::name_of(arguments.codec);
  entry.ranks = job.size();
  entry.tensors = workload.tensors();
  entry.in_place = form == Form::kInPlace;
  entry.cold = arguments.buffers == Buffers::kCold;
  entry.memory = arguments.memory;
  entry.set = arguments.set;

  entry.correct = workload.step_is_correct();
  entry.iterations = warm_up(job, arguments, workload);
  entry.before = neighbours.measure();
  job.wait_for_all();
  const AlgorithmsRun before = algorithms_run(job.session());
  std::vector<double> times = time_steps(entry.iterations, [&](size_t turn) { workload.step(turn); });
  entry.algorithm = busiest_algorithm(before, algorithms_run(job.session()));
  entry.after = neighbours.measure();
  entry.correct = workload.step_is_correct() && entry.correct;
  entry.correct = job.all(entry.correct);

  // The slowest rank's p50, p99 and maximum, each on its own: an operation is over when it is over everywhere.
  const Quantiles own = quantiles(times);
  double worst[3] = {own.p50, own.p99, own.max};
  job.max(worst);
  entry.time = {worst[0], worst[1], worst[2]};
  return entry;
}

}  // namespace rueda::perf
