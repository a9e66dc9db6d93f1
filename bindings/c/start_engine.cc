// From a formed epoch to its engine: the algorithms of Rueda and of the plug-ins make the data plane, which the engine
// owns.
#include "bindings/c/start_engine.h"

#include "bindings/c/check_settings.h"
#include "ops/data_plane.h"
#include "ops/select.h"

namespace rueda::core {
namespace {

Result<std::unique_ptr<DataPlane>> make_data_plane(const Settings& settings, const Plugins& plugins) {
  auto plane = std::make_unique<DataPlane>(settings);
  for (const std::span<const Algorithm> more : plugins.algorithms) RUEDA_RETURN_IF_ERROR(plane->add_algorithms(more));
  for (DeviceEngineSource* const source : plugins.engines)
    plane->add_engine(source->open({settings.nccl, settings.hierarchical_allreduce, settings.deterministic}));
  return plane;
}

}  // namespace

Status check_rows(const Settings& settings, const Plugins& plugins) {
  const Result<std::unique_ptr<DataPlane>> plane = make_data_plane(settings, plugins);
  return plane.ok() ? check_forced_algorithms(plane.value()->table(), settings) : plane.status();
}

Result<std::shared_ptr<Engine>> start_engine(Formation formation, LauncherLink launcher, const Plugins& plugins,
                                             const std::vector<StaticSet>& sets) {
  Result<std::unique_ptr<DataPlane>> executor = make_data_plane(formation.plan.settings, plugins);
  if (!executor.ok()) return executor.status();
  auto engine = Engine::start(std::move(formation), std::move(executor).value(), std::move(launcher.verdicts),
                              std::move(launcher.dumps));
  if (!engine.ok()) return engine;
  RUEDA_RETURN_IF_ERROR(add_static_sets(*engine.value(), sets));
  return engine;
}

}  // namespace rueda::core
