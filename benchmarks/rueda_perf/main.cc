// rueda-perf: parses, makes a session, measures entry by entry, writes. Ranks other than 0 do the same but speak to no
// one.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>

#include "benchmarks/rueda_perf/arguments.h"
#include "benchmarks/rueda_perf/idle.h"
#include "benchmarks/rueda_perf/measure.h"
#include "benchmarks/rueda_perf/memory_limit.h"
#include "benchmarks/rueda_perf/mpi_peer.h"
#include "benchmarks/rueda_perf/report.h"

namespace {

using namespace rueda::perf;  // the program's own names

// Before any thread runs.
void force_algorithm(const Arguments& arguments) {
  const char* const variable = arguments.collective == rueda::core::OpKind::kBroadcast ? "RUEDA_BROADCAST_ALGORITHM"
                                                                                       : "RUEDA_ALLREDUCE_ALGORITHM";
  if (arguments.algorithm != "auto") ::setenv(variable, arguments.algorithm.c_str(), 1);
}

/// One run of the program on this rank, after init.
class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments), neighbours_(job_), report_(arguments.json_path) {
    if (!arguments.peer.empty() && job_.speaks()) peer_ = std::make_unique<MpiPeer>(arguments);
  }

  /// Returns the exit code: 1 if a result was wrong or could not be written.
  int sweep() {
    bool correct = true;
    // The memory's speed before and after the sweep, the better one counts: other work only ever lowers it.
    const double memory_before = arguments_.limit ? memory_GBps(job_) : 0;
    for (const size_t bytes : arguments_.set.empty() ? sweep_sizes(arguments_) : std::vector<size_t>{0}) {
      correct = measure(bytes) && correct;
    }
    if (arguments_.limit) note_limit(std::max(memory_before, memory_GBps(job_)));
    if (!job_.speaks()) return correct ? 0 : 1;
    if (peer_) report_.note("peer", peer_->description());
    const int written = report_.finish();
    return correct ? written : 1;
  }

 private:
  // The peer comes between our entries of the same bytes.
  bool measure(size_t tensor_bytes) {
    bool correct = true;
    for (const Form form : arguments_.forms) {
      const Entry entry = measure_entry(job_, neighbours_, arguments_, form, tensor_bytes);
      correct = correct && entry.correct;
      if (job_.speaks()) report_.add(entry);
      if (peer_ && form == arguments_.forms.front()) report_.add(peer_->measure(entry.bytes, job_.size()));
      job_.wait_for_all();
    }
    return correct;
  }

  void note_limit(double memory) {
    if (!job_.speaks()) return;
    report_.note("memory_GBps", memory);
    report_.note("limit_GBps", memory / (2 * job_.size()));
    report_.note("limit_out_of_place_GBps", memory / (3 * job_.size()));
  }

  const Arguments& arguments_;
  const Job job_;
  Neighbours neighbours_;
  Report report_;
  std::unique_ptr<MpiPeer> peer_;  ///< rank 0's
};

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto arguments = parse_arguments(argc, argv, &exit_code);
  if (!arguments) return exit_code;
  force_algorithm(*arguments);
  try {
    if (is_rank_zero()) Report::check_writable(arguments->json_path);
    return arguments->idle_seconds > 0 ? report_idle(*arguments) : Run(*arguments).sweep();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rueda-perf: %s\n", error.what());
    return 1;
  }
}
