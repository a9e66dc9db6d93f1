// What ranks tell each other between measurements goes through the same session, but through operations of their own
// name, with a codec that changes nothing: neither forced codecs nor caches of other names play a part in them.
#include "benchmarks/rueda_perf/job.h"

namespace rueda::perf {

void Job::reduce(std::span<double> values, ReduceOp op) const {
  session_.allreduce(values, {.op = op, .name = "rueda-perf.agree", .codec = Codec::kNone});
}

double Job::max(double value) const {
  reduce({&value, 1}, ReduceOp::kMax);
  return value;
}

double Job::sum(double value) const {
  reduce({&value, 1}, ReduceOp::kSum);
  return value;
}

bool Job::all(bool value) const {
  double least = value ? 1 : 0;
  reduce({&least, 1}, ReduceOp::kMin);
  return least == 1;
}

void Job::share(std::span<double> values) const { session_.broadcast(values, {.root = 0, .name = "rueda-perf.share"}); }

}  // namespace rueda::perf
