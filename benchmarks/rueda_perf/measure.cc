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
  return arguments.iterations > 0 ? arguments.iterations : steps_within(arguments.row_seconds, step_us);
}

}  // namespace

Row measure_row(const Job& job, Neighbours& neighbours, const Arguments& arguments, Form form, size_t tensor_bytes) {
  Workload workload(job, arguments, form, element_counts(arguments, tensor_bytes));
  Row row;
  row.collective = core::name_of(arguments.collective);
  row.bytes = workload.bytes();
  row.dtype = core::name_of(arguments.dtype);
  row.codec = core::name_of(arguments.codec);
  row.ranks = job.size();
  row.tensors = workload.tensors();
  row.in_place = form == Form::kInPlace;
  row.cold = arguments.buffers == Buffers::kCold;
  row.set = arguments.set;

  row.correct = workload.step_is_correct();
  row.iterations = warm_up(job, arguments, workload);
  row.before = neighbours.measure();
  job.wait_for_all();
  const AlgorithmsRun before = algorithms_run(job.session());
  std::vector<double> times = time_steps(row.iterations, [&](size_t turn) { workload.step(turn); });
  row.algorithm = busiest_algorithm(before, algorithms_run(job.session()));
  row.after = neighbours.measure();
  row.correct = workload.step_is_correct() && row.correct;
  row.correct = job.all(row.correct);

  const Quantiles own = quantiles(times);
  double worst[3] = {own.p50, own.p99, own.max};
  job.max(worst);
  row.time = {worst[0], worst[1], worst[2]};
  return row;
}

}  // namespace rueda::perf
