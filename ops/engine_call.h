#pragma once
#include <span>

#include "ops/algorithm.h"
#include "runtime/engine/device_engine.h"

namespace rueda::core {

/// The host's side of a batch that a device's engine runs: the members talk over the device lane's mesh.
class HostEngineCall : public EngineCall {
 public:
  /// `call` has the stamps of `told_stamps` at its beginning: stamps only grow, so what is told comes first.
  HostEngineCall(std::span<const Algorithm> table, const Call& call, Mesh& mesh, Deadline deadline)
      : table_(table), call_(call), mesh_(mesh), deadline_(deadline) {}
  Status tell_all(std::span<std::byte> all) override;
  Status sum_between_hosts(std::byte* memory, int64_t count, std::span<const int> ranks) override;
  Status until(const std::function<bool()>& ready) override;

  /// Returns how many stamps a batch of a team takes for what its members tell each other. Pure, because it is part of
  /// the plan.
  static uint64_t told_stamps(OpKind kind, int members, uint64_t tensors);

 private:
  std::span<const Algorithm> table_;
  const Call& call_;
  Mesh& mesh_;
  const Deadline deadline_;
  uint64_t used_ = 0;  ///< stamps
};

}  // namespace rueda::core
