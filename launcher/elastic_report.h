#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/membership_orders.h"

namespace rueda::core::launcher {

/// How an elastic job ended.
struct ElasticOutcome {
  std::vector<WorkerDeath> deaths;
  std::vector<FinishedWorker> finished;
  uint64_t last_begun = 0;  ///< the last plan that any worker has begun to form
  uint64_t plans = 0;
  int exit_code = 0;
  std::string sentence;     ///< why it failed
  int user_signal = 0;      ///< the signal by which the user ended it; 0 if none
  bool as_horovod = false;  ///< the report of a failed job has a sentence that scripts for Horovod look for
};

/// Returns hvdrun's last lines about an elastic job: each worker that ended well before the others, each death, then
/// what became of the job. Empty if it succeeded, nobody died, and all ended in its last plan. `name_of` names a
/// worker: "worker 2 (host b, pid 77)".
std::vector<std::string> describe_outcome(const ElasticOutcome& outcome,
                                          const std::function<std::string(int64_t worker)>& name_of);

}  // namespace rueda::core::launcher
