// Small inputs that peers see before their batch is agreed, so that no rank waits for them afterwards:
//
//     without   propose ─▶ rank 0 ─▶ verdict ─▶ show the input ─▶ see those of all ─▶ done
//     with      show the input, propose ─▶ rank 0 ─▶ verdict ─▶ see those of all ─▶ done
//
// A rank shows its input under the stamp and the key of the batch that it expects: the next stamp after the latest
// batch, and the tensor's id in agreement. A rank that runs that batch takes the input; for every other batch it means
// nothing, and its owner posts its input as ever. So a wrong guess costs a copy of 48 bytes, and ranks may guess
// differently.
//
// A guess that comes true must show the input at hand and not an older one under the same key: EarlyGuess says when
// what was shown has to go.
#include "runtime/engine/turn.h"

namespace rueda::core {

/// The tensor is in the list already. Its metadata are those that all ranks know under `key`, so that codec and scales
/// will be the batch's.
void Turn::show_early(TensorPart& tensor, TeamState& team, uint64_t key) {
  if (!parts_.early_inputs || !team.latest || tensor.request.metadata.kind != OpKind::kAllreduce) return;
  const bool alone = oldest_ == &tensor && newest_ == &tensor;
  if (!alone || tensor.request.name.empty() || tensor.request.metadata.device >= 0) return;
  Call call;
  describe(tensor.request.metadata, call);
  call.slices = {&tensor.slice, 1};
  call.count = tensor.slice.count;
  call.choice = *team.latest;
  call.stamp = guess_.show(tensor.request.ticket);
  call.key = key;
  call.team = &team.team;
  shown_on_ = &parts_.lanes.of(team.id, LaneUse::kHostMemory);
  shown_on_->show_early(call);
}

void Turn::note_latest(const BatchEvent& event, TeamState& team) {
  guess_.take(event);
  team.latest.reset();
  if (event.key != 0) team.latest = event.choice;
}

void Turn::hide_early(uint64_t ticket) {
  if (guess_.fail(ticket)) shown_on_->hide_early(guess_.stamp());
}

}  // namespace rueda::core
