#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "ops/algorithm.h"
#include "ops/cpu/lane_view.h"
#include "ops/cpu/shared_tensors.h"

namespace rueda::core {

/// One rank's side of a batch whose tensors lie in shared memory: where the members' tensors are, and the two meetings
/// around the work. Lives for one step or run, on the holder of the lane's token; borrows call and mesh.
class SharedBatch {
 public:
  SharedBatch(const Call& call, Mesh& mesh)
      : call_(call), mesh_(mesh), view_(call, mesh), element_bytes_(size_of(call.dtype)) {}

  const Call& call() const { return call_; }
  Mesh& mesh() { return mesh_; }
  LaneView& view() { return view_; }
  size_t element_bytes() const { return element_bytes_; }

  /// What `member` has posted: a slot, which it may write to at any time. All have posted.
  std::span<const std::byte> posted_by(int member) const { return {view_.input(member, 0), mesh_.layout().slot_bytes}; }
  /// The own arena; kInvalidArgument if there is none.
  Result<TensorArena*> own_arena() const;
  /// Finds the arenas of all members; kPeerLost if one has none.
  Status find_arenas();
  /// After `find_arenas`, in the team's order.
  std::span<TensorArena* const> arenas() const { return arenas_; }
  /// The member's tensors, checked against its arena. After `find_arenas`.
  Result<std::vector<SharedOffsets>> offsets_of(int member) const;

 private:
  const Call& call_;
  Mesh& mesh_;
  LaneView view_;
  size_t element_bytes_;
  std::vector<TensorArena*> arenas_;
};

/// What an algorithm on tensors in shared memory does, around the meetings that all of them have:
///
///   post ─▶ slot, posted ─ all posted ─▶ work ─▶ done ─ all done ─▶
struct SharedWork {
  /// Bytes that `post` writes for this call.
  size_t (*bytes)(const Call& call);
  /// Writes to a slot where the own tensors are.
  Status (*post)(SharedBatch& batch, std::byte* to);
  /// Reads and writes members' tensors. `find_arenas` has been called, and the arenas are entered.
  Status (*run)(SharedBatch& batch);
};

/// One look at the batch, as `Algorithm::step`.
Result<StepResult> step_shared(const SharedWork& work, const Call& call, Mesh& mesh, StepState& state);
/// The whole batch, as `Algorithm::run`. After a failure, peers may still write into tensors that were posted as
/// outputs until these are revoked (`TensorArena::revoke`).
Status run_shared(const SharedWork& work, const Call& call, Mesh& mesh, Deadline deadline);

}  // namespace rueda::core
