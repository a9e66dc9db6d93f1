#include "launcher/start_order.h"

#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "launcher/environment.h"
#include "runtime/base/build_id.h"
#include "runtime/base/environment.h"

namespace rueda::core::launcher {

StartOrder start_order(const Arguments& arguments, const JobPlan& plan, const HostShare& share, const JobStore& store) {
  StartOrder order;
  order.build = build_id();
  order.program = plan.program;
  order.arguments = arguments.command;
  order.environment = job_environment(process_environment().all(), arguments.variables, store.job());
  order.key = store.key();
  order.grace_ms = std::chrono::milliseconds(arguments.grace).count();
  order.silence_ms = share.here ? 0 : plan.silence.count();
  const std::unique_ptr<char, decltype(&std::free)> directory(get_current_dir_name(), std::free);
  order.directory = directory ? directory.get() : ".";
  for (const auto& placement : share.ranks) order.ranks.push_back({placement.rank, rank_environment(placement)});
  return order;
}

}  // namespace rueda::core::launcher
