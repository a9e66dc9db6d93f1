#include "bindings/c/pair_sets.h"

#include <fmt/format.h>

namespace rueda::core {

Result<SetId> PairSets::of(Engine& engine, int sender, int receiver) {
  MutexLock lock(mutex_);
  const auto known = sets_.find({sender, receiver});
  if (known != sets_.end()) return known->second;
  Result<SetId> made = engine.add_process_set({sender, receiver}, fmt::format("rueda.send.{}.{}", sender, receiver));
  if (made.ok()) sets_.emplace(std::pair(sender, receiver), made.value());
  return made;
}

}  // namespace rueda::core
