// What a timeline costs: steps of the ResNet-50 set with it and without, in turns within one job, so that a machine
// whose speed changes under it is the same for both.
//   hvdrun -np 2 timeline_cost FILE [ROUNDS [STEPS]]
// A round is so many steps (100) without and as many with, in changing order. Told is the median over the rounds of
// with / without, and between what it lies with 95 % confidence (order statistics), of the time of the steps, and of
// the processor time of the process, there with start, file and stop.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/rueda_perf/resnet50.h"
#include "rueda.h"

namespace {

const rueda_op_options kAll = [] {
  rueda_op_options options{};
  options.struct_size = sizeof options;
  return options;
}();

void check(int32_t code, const char* what) {
  if (code == RUEDA_OK) return;
  std::fprintf(stderr, "%s: %s\n", what, rueda_last_error());
  std::exit(1);
}

// One gradient. `count` is the shape that the C API borrows, so it lives as long as the tensor.
struct Tensor {
  std::vector<float> values;
  int64_t count;
  std::string name;
  rueda_handle handle = 0;
};

// Of all threads: the timeline's own thread works beside the steps, and its cost shows here if not in their time.
double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// As a backward pass does: all gradients are enqueued, then waited for.
void step(rueda_session* session, std::vector<Tensor>& tensors) {
  for (Tensor& each : tensors) {
    rueda_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    tensor.data = each.values.data();
    tensor.dtype = RUEDA_F32;
    tensor.dimensions = 1;
    tensor.shape = &each.count;
    rueda_op_options options{};
    options.struct_size = sizeof options;
    options.name = each.name.c_str();
    check(rueda_allreduce_async(session, &tensor, &tensor, RUEDA_AVERAGE, &options, &each.handle), "allreduce");
  }
  for (Tensor& each : tensors) {
    check(rueda_wait(each.handle, -1), "wait");
    check(rueda_release(each.handle), "release");
  }
}

// All ranks start together, so that none times another's delay.
double time_of_steps(rueda_session* session, std::vector<Tensor>& tensors, int steps) {
  check(rueda_barrier(session, &kAll), "barrier");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) step(session, tensors);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Cost {
  double time;
  double processor;
};

// Start and stop of the timeline are outside the time of the steps and inside the processor time.
Cost run(rueda_session* session, std::vector<Tensor>& tensors, const char* file, int steps) {
  check(rueda_barrier(session, &kAll), "barrier");
  const double before = processor_seconds();
  if (file != nullptr) check(rueda_start_timeline(session, file, 0), "start_timeline");
  const double time = time_of_steps(session, tensors, steps);
  check(rueda_barrier(session, &kAll), "barrier");
  if (file != nullptr) check(rueda_stop_timeline(session), "stop_timeline");
  return {time, processor_seconds() - before};
}

struct Median {
  double least, value, most;
};

// With its confidence interval by order statistics: 0.98 sqrt(n) ranks to either side hold the median of the
// distribution with 95 %, whatever its shape.
Median median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  const double half = 0.98 * std::sqrt(count);
  const auto at = [&](double rank) { return values[static_cast<size_t>(std::clamp(rank, 0.0, count - 1))]; };
  return {at(std::floor(count / 2 - half)), at(count / 2), at(std::ceil(count / 2 + half))};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: hvdrun -np 2 timeline_cost FILE [ROUNDS [STEPS]]\n");
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 40;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 100;
  rueda_session* session = nullptr;
  check(rueda_init(nullptr, &session), "init");
  std::vector<Tensor> tensors;
  for (const size_t count : rueda::perf::resnet50_parameter_counts()) {
    tensors.push_back({std::vector<float>(count, 1.0f), static_cast<int64_t>(count),
                       "module.layer." + std::to_string(tensors.size()) + ".weight"});
  }
  // Gradients come from the last layer to the first.
  std::reverse(tensors.begin(), tensors.end());
  static_cast<void>(time_of_steps(session, tensors, 10));
  std::vector<double> times;
  std::vector<double> processors;
  std::vector<double> without;
  for (int round = 0; round < rounds; ++round) {
    Cost off{};
    Cost on{};
    for (int turn = 0; turn < 2; ++turn) {
      // Which one goes first changes with each round: a machine that slows down favours neither.
      const bool with = (turn + round) % 2 == 1;
      (with ? on : off) = run(session, tensors, with ? argv[1] : nullptr, steps);
    }
    times.push_back(on.time / off.time);
    processors.push_back(on.processor / off.processor);
    without.push_back(off.time / steps);
  }
  const Median time = median(times), processor = median(processors);
  std::printf(
      "rank %d: %d rounds, %.2f ms a step without; with / without: time %.4f (%.4f to %.4f), processor time %.4f "
      "(%.4f to %.4f)\n",
      rueda_rank(session), rounds, median(without).value * 1e3, time.value, time.least, time.most, processor.value,
      processor.least, processor.most);
  check(rueda_shutdown(session), "shutdown");
  return 0;
}
