// What a job costs that does nothing: processor time and wake-ups while all ranks are idle, and the memory that a
// session and a first batch take. Memory is Pss, not Rss: pages that ranks share count once among them.
#include "benchmarks/rueda_perf/idle.h"

#include <poll.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "benchmarks/rueda_perf/job.h"
#include "benchmarks/rueda_perf/report.h"
#include "benchmarks/rueda_perf/timing.h"

namespace rueda::perf {
namespace {

/// Of the whole process, all threads.
struct Usage {
  double cpu_seconds;
  double wake_ups;
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Voluntary context switches stand for wake-ups: a thread that sleeps and is woken makes one.
Usage usage() {
  rusage all{};
  ::getrusage(RUSAGE_SELF, &all);
  return {seconds(all.ru_utime) + seconds(all.ru_stime), static_cast<double>(all.ru_nvcsw)};
}

// The kernel adds up all mappings of the process; a page of n processes counts 1/n.
double pss_MiB() {
  std::ifstream rollup("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(rollup, line)) {
    if (line.rfind("Pss:", 0) == 0) return std::stod(line.substr(4)) / 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup has no Pss: the kernel does not tell how memory grows");
}

// Percent of a core, and wake-ups a second.
std::pair<double, double> idle_use(double idle_seconds) {
  const Usage before = usage();
  const Clock::time_point begin = Clock::now();
  ::poll(nullptr, 0, static_cast<int>(idle_seconds * 1e3));
  const double elapsed = microseconds(Clock::now() - begin) * 1e-6;
  const Usage after = usage();
  return {100 * (after.cpu_seconds - before.cpu_seconds) / elapsed, (after.wake_ups - before.wake_ups) / elapsed};
}

}  // namespace

int report_idle(const Arguments& arguments) {
  const Memory buffer(arguments.max_bytes);
  const std::span<float> tensor(reinterpret_cast<float*>(buffer.data()), buffer.bytes() / sizeof(float));
  // The buffer is touched already, so what comes on top belongs to the library.
  const double at_start = pss_MiB();
  const Job job;
  job.wait_for_all();
  const double after_init = pss_MiB();
  job.session().allreduce(tensor, {.op = ReduceOp::kMax, .name = "rueda-perf.idle", .codec = Codec::kNone});
  const double after_batch = pss_MiB();
  job.wait_for_all();  // a rank that leaves would change the shares of the others
  const auto [percent, wake_ups] = idle_use(arguments.idle_seconds);

  double worst[5] = {percent, wake_ups, after_batch - at_start, after_init - at_start, after_batch - after_init};
  job.max(worst);
  if (!job.speaks()) return 0;
  Report report(arguments.json_path);
  const char* const names[5] = {"idle_core_percent", "wakeups_per_second", "pss_growth_MiB", "pss_growth_by_init_MiB",
                                "pss_growth_by_batch_MiB"};
  for (int i = 0; i < 5; ++i) report.note(names[i], worst[i]);
  return report.finish();
}

}  // namespace rueda::perf
