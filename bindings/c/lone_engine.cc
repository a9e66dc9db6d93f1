// What a session has while its worker waits outside of a running job: an engine, so that every call finds one, and the
// ranks as they would be. The engine has the default settings: it must not write the files of rank 0, nor listen where
// rank 0 does.
#include "bindings/c/lone_engine.h"

#include <fmt/format.h>

#include <map>

#include "bindings/c/start_engine.h"

namespace rueda::core {
namespace {

constexpr char kWaits[] =
    "this process is a new worker of a running job, and waits outside of the plan that the others are in; "
    "rueda_reset joins the next plan";

}  // namespace

Result<std::shared_ptr<Engine>> lone_engine(const Identity& identity, int64_t worker, size_t sets,
                                            std::unique_ptr<DumpSource> dumps) {
  Identity alone = identity;
  alone.elastic.workers = {worker};
  alone.rank = 0;
  alone.size = alone.local_size = 1;
  auto formation = form_epoch(alone, nullptr, Settings(), Deadline::never());
  if (!formation.ok()) return formation.status();
  std::vector<StaticSet> lost(sets);
  for (size_t i = 0; i < sets; ++i) lost[i].lost = fmt::format("process set {} of rueda_init: {}", i + 1, kWaits);
  LauncherLink link;
  link.dumps = std::move(dumps);
  auto engine = start_engine(std::move(formation).value(), std::move(link), {}, lost);
  if (engine.ok()) engine.value()->refuse({Code::kInvalidArgument, kWaits});
  return engine;
}

EpochPlan forecast_of(const Plan& plan, int64_t worker) {
  EpochPlan forecast;
  forecast.rank = plan.rank_of(worker);
  forecast.size = static_cast<int>(plan.workers.size());
  std::map<std::string, int> hosts;
  for (const PlannedWorker& each : plan.workers) {
    forecast.host_of.push_back(hosts.try_emplace(each.host, static_cast<int>(hosts.size())).first->second);
  }
  return forecast;
}

}  // namespace rueda::core
