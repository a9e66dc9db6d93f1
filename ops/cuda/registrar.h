#pragma once
#include <span>
#include <string>

#include "ops/cuda/communicators.h"
#include "ops/cuda/nccl_told.h"

namespace rueda::cuda {

/// Has NCCL register the memory that a set's batches are packed in: then its kernels and cards read and write there
/// without a copy of their own. All members' memory is registered or none's, since NCCL's calls must not mix the two.
/// Used by the device lane.
class Registrar {
 public:
  Registrar(const rueda_host& host, Communicators& communicators) : host_(host), communicators_(communicators) {}
  /// Returns whether members that have told this try it. The same on all of them. If not, the log says why.
  bool may_try(std::span<const Told> members, std::span<const int> ranks);
  /// Registers the memory for the call's set if NCCL does so on all members, which all call it alike. If one is refused
  /// all go on without. Fails as `EngineCall::tell_all` and `until` do.
  Status register_for_all(const core::Call& call, std::byte* memory, size_t bytes, core::EngineCall& host);

 private:
  void tell(const std::string& why_not);

  const rueda_host& host_;
  Communicators& communicators_;
  bool told_ = false;
};

}  // namespace rueda::cuda
