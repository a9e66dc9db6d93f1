// A rank of a job of any library that is compared. Each library is linked with the same program, so that all of them do
// the same work under the same clock:
//
//   PROGRAM PLAN               times the works of the plan: check ─▶ settle ─▶ meet ─▶ timed steps ─▶ check
//   PROGRAM --idle SECONDS     what a job costs that does nothing, and what it costs to wait for a late rank
//
// Rank 0 prints a line of JSON for each work, behind the word "compare" because launchers print lines of their own.
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>

#include "benchmarks/compare/ranks/ranks.h"
#include "benchmarks/compare/ranks/step.h"
#include "benchmarks/rueda_perf/timing.h"

namespace {

using namespace rueda::compare;  // the program's own names
using rueda::perf::Clock;
using rueda::perf::microseconds;

constexpr size_t kBatchBytes = size_t{64} << 20;

struct Usage {
  double cpu_us;
  double wake_ups;
};

double microseconds_of(const timeval& time) {
  return 1e6 * static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec);
}

// Of the whole process: the library's threads count.
Usage usage() {
  rusage all{};
  ::getrusage(RUSAGE_SELF, &all);
  return {microseconds_of(all.ru_utime) + microseconds_of(all.ru_stime), static_cast<double>(all.ru_nvcsw)};
}

// A page that n processes map counts 1/n.
double pss_MiB() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.rfind("Pss:", 0) == 0) return std::stod(line.substr(4)) / 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup has no Pss: the kernel does not tell how memory grows");
}

// A job runs for hours. Rueda tries its ways in the first 200 ms of a kind of step, and others grow their buffers.
constexpr double kSettlingSeconds = 0.3;

// Few steps of what takes long: at least 3, so that a median means something.
size_t steps_to_time(Ranks& ranks, Step& step, const Work& work) {
  const size_t usual = work.counts.size() == 1 ? rueda::perf::usual_warm_up(step.bytes()) : 4;
  const size_t warm = step.bytes() > (size_t{16} << 20) ? 2 : usual;
  const auto timed = [&](size_t steps) {
    std::vector<double> times = rueda::perf::time_steps(steps, [&](size_t turn) { step.run(turn); });
    return ranks.max(rueda::perf::quantiles(times).p50);
  };
  const double step_us = timed(rueda::perf::steps_within(kSettlingSeconds, timed(warm)));
  return step_us > work.seconds * 0.25e6 ? 3 : rueda::perf::steps_within(work.seconds, step_us);
}

void measure(Ranks& ranks, const Work& work) {
  Step step(ranks, work);
  bool correct = step.is_correct();
  const size_t steps = steps_to_time(ranks, step, work);
  ranks.max(0);  // all ranks begin together
  const Usage before = usage();
  std::vector<double> times = rueda::perf::time_steps(steps, [&](size_t turn) { step.run(turn); });
  const double cpu = (usage().cpu_us - before.cpu_us) / static_cast<double>(steps);
  correct = step.is_correct() && correct;
  const auto own = rueda::perf::quantiles(times);
  const double p50 = ranks.max(own.p50), p99 = ranks.max(own.p99), most = ranks.max(own.max);
  const double all_cpu = ranks.total(cpu);
  const bool wrong = ranks.max(correct ? 0 : 1) > 0;
  if (ranks.rank() != 0) return;
  std::printf(
      "compare {\"name\": \"%s\", \"bytes\": %zu, \"count\": %zu, \"ranks\": %d, \"p50_us\": %.3f, \"p99_us\": %.3f, "
      "\"max_us\": %.3f, \"cpu_us\": %.3f, \"iterations\": %zu, \"correct\": %s}\n",
      work.name.c_str(), step.bytes(), work.counts.size(), ranks.size(), p50, p99, most, all_cpu, steps,
      wrong ? "false" : "true");
  std::fflush(stdout);
}

// Percent of a core that this process uses while `act` runs, and its wake-ups a second.
template <typename Act>
Usage rate_of(Act act) {
  const Usage before = usage();
  const Clock::time_point begin = Clock::now();
  act();
  const double elapsed = microseconds(Clock::now() - begin);
  const Usage after = usage();
  return {100 * (after.cpu_us - before.cpu_us) / elapsed, 1e6 * (after.wake_ups - before.wake_ups) / elapsed};
}

void pass(double seconds) { ::poll(nullptr, 0, static_cast<int>(seconds * 1e3)); }

// Growth of memory is that of the library: the tensor was touched before it came.
int report_idle(double seconds) {
  const rueda::perf::Memory buffer(kBatchBytes);
  const double at_start = pss_MiB();
  const auto ranks = join_job();
  ranks->max(0);
  const double after_init = pss_MiB();
  const Work work{.name = "idle", .counts = {kBatchBytes / sizeof(float)}};
  ranks->sum({reinterpret_cast<float*>(buffer.data()), work.counts[0], 0}, work);
  const double after_batch = pss_MiB();
  ranks->max(0);  // a rank that leaves would change the shares of the others
  const Usage idle = rate_of([&] { pass(seconds); });
  ranks->max(0);
  // Rank 0 comes late; the others wait for it in a sum.
  const Usage wait = rate_of([&] {
    if (ranks->rank() == 0) pass(seconds);
    ranks->max(0);
  });
  const double percent = ranks->max(idle.cpu_us), wakes = ranks->max(idle.wake_ups);
  const double waiting = ranks->max(ranks->rank() == 0 ? 0 : wait.cpu_us);
  const double init = ranks->max(after_init - at_start), batch = ranks->max(after_batch - after_init);
  if (ranks->rank() != 0) return 0;
  std::printf(
      "compare {\"idle_core_percent\": %.4f, \"wakeups_per_second\": %.2f, \"waiting_core_percent\": %.2f, "
      "\"pss_growth_by_init_MiB\": %.2f, \"pss_growth_by_batch_MiB\": %.2f, \"ranks\": %d}\n",
      percent, wakes, waiting, init, batch, ranks->size());
  return 0;
}

int time_plan(const std::string& path) {
  const std::vector<Work> works = read_plan(path);
  const auto ranks = join_job();
  if (ranks->rank() == 0) std::printf("compare {\"library\": \"%s\"}\n", ranks->library().c_str());
  for (const Work& work : works) measure(*ranks, work);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string(argv[1]) == "--idle") return report_idle(std::stod(argv[2]));
    if (argc == 2) return time_plan(argv[1]);
    std::fprintf(stderr, "usage: %s PLAN | --idle SECONDS\n", argv[0]);
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}
