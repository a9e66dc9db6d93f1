// The report at the end of an elastic job. Workers that ended well while the others went on come first: a program that
// ends in the middle of its work by mistake, as by sys.exit(), counts as done, and nothing else would tell. The deaths
// come in the order in which hvdrun heard of them. What became of the job comes last, where a user looks first.

#include "launcher/elastic_report.h"

#include <fmt/format.h>

#include "launcher/wait_status.h"

namespace rueda::core::launcher {

std::vector<std::string> describe_outcome(const ElasticOutcome& outcome,
                                          const std::function<std::string(int64_t worker)>& name_of) {
  std::vector<std::string> lines;
  for (const FinishedWorker& one : outcome.finished) {
    if (one.plan == 0 || one.plan >= outcome.last_begun) continue;  // nobody has begun another one without it
    lines.push_back(fmt::format("{} ended with code 0 in plan {}, and the others went on without it",
                                name_of(one.worker), one.plan));
  }
  for (const WorkerDeath& death : outcome.deaths) {
    const std::string where = death.plan == 0 ? "before it was in a plan" : fmt::format("in plan {}", death.plan);
    lines.push_back(fmt::format("{} failed: {}, {}", name_of(death.worker), death.cause, where));
  }
  if (outcome.user_signal != 0 && outcome.exit_code != 0) {
    lines.push_back(
        fmt::format("the job was ended by {} in plan {}", describe_signal(outcome.user_signal), outcome.plans));
  } else if (outcome.exit_code != 0) {
    if (!outcome.sentence.empty()) lines.push_back(fmt::format("the job failed: {}", outcome.sentence));
    if (outcome.as_horovod) lines.push_back("Horovod detected that one or more processes exited with non-zero status");
  } else if (!outcome.deaths.empty()) {
    lines.push_back(fmt::format("the job succeeded in plan {} without {}", outcome.plans,
                                outcome.deaths.size() == 1 ? "this worker" : "these workers"));
  }
  return lines;
}

}  // namespace rueda::core::launcher
